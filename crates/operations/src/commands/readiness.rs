//! Checks the settings of a Redis server, without which it may lose data, whether PostgreSQL has connections left, and the
//! endpoint of events (G6).

use orders::{event_delivery::MAX_CONCURRENCY, ledger::events};
use stores::{
    Sql, StoreError,
    ledger::{errors, row_reader::RowReader},
    ports::Dialect,
};

/// Returns what is wrong with a Redis server, from its reply to `INFO`: it must be writable, have memory and disk left, evict
/// nothing, and persist its data, or have a replica where `is_replicated` says that this makes it durable. A setting that
/// the server does not show passes.
#[must_use]
pub fn redis_fault(info: &str, is_replicated: bool) -> Option<String> {
    let setting = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if setting("role") == Some("slave") {
        return Some("is a read-only replica: point the app at the master, or send it 'replicaof no one'".to_owned());
    }
    let mut replicas = info.lines().filter(|line| line.starts_with("slave") && line.contains("state=")).peekable();
    let has_replica = replicas.peek().is_none() || replicas.any(|line| line.contains("state=online"));
    if is_replicated && (setting("connected_slaves") == Some("0") || !has_replica) {
        return Some("has no replica that is online, and redis_durability is replication: add one".to_owned());
    }
    if !is_replicated && setting("aof_enabled") == Some("0") {
        return Some(
            "appendonly is off: set 'appendonly yes' in redis.conf; or, if replicas keep its data, the variable \
             redis_durability to replication"
                .to_owned(),
        );
    }
    if let Some(policy) = setting("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        return Some(format!("maxmemory-policy is {policy}: set 'maxmemory-policy noeviction' in redis.conf"));
    }
    if setting("aof_last_write_status") == Some("err") {
        return Some("cannot write its file, and so takes no orders: is its disk full?".to_owned());
    }
    let bytes = |name| setting(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    let (used, limit) = (bytes("used_memory"), bytes("maxmemory"));
    (limit > 0 && used >= limit).then(|| format!("is full: it uses {used} bytes, and maxmemory is {limit}: raise it"))
}

/// Connections of clients, and how many a role without privileges may have. `reserved_connections` is of PostgreSQL 16.
const CONNECTIONS: &str = "SELECT COUNT(*), CAST(current_setting('max_connections') AS BIGINT) \
    - CAST(current_setting('superuser_reserved_connections') AS BIGINT) \
    - COALESCE(CAST(current_setting('reserved_connections', true) AS BIGINT), 0) \
    FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL";

/// What to change when PostgreSQL has too few connections.
const RAISE: &str =
    "raise max_connections in postgresql.conf, or lower that of outbound_pg in Spin's runtime configuration";

/// Returns how many of PostgreSQL's connections are in use, if a tenth or less is left.
///
/// # Errors
/// As the ledger's modules.
pub async fn connections_fault<S: Sql>(sql: &S) -> Result<Option<String>, StoreError> {
    if sql.dialect() == Dialect::Sqlite {
        return Ok(None);
    }
    let mut rows = sql.run(CONNECTIONS, Vec::new()).await?.into_iter().map(RowReader::new);
    let mut row = rows.next().ok_or_else(|| StoreError::Malformed("no count of connections".to_owned()))?;
    let (used, limit) = (row.int()?, row.int()?);
    Ok((used * 10 >= limit * 9).then(|| format!("has {used} of {limit} connections in use: {RAISE}")))
}

/// What the endpoint of events at `url` answered last, if that needs an operator.
pub async fn events_fault<S: Sql>(sql: &S, url: &str) -> Option<&'static str> {
    events::load_endpoint(sql, url, MAX_CONCURRENCY).await.ok()?.fault()
}

/// What is wrong with a ledger that refuses a connection because it has too many (SQLSTATE 53300).
#[must_use]
pub fn refused_connection_fault(error: &StoreError) -> Option<String> {
    let is_full = matches!(error, StoreError::LedgerUnavailable(text) if errors::has_too_many_clients(text));
    is_full.then(|| format!("refuses connections, because all are in use: {RAISE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nrole:master\r\nconnected_slaves:1\r\nslave0:ip=::1,state=online\r\naof_enabled:1\r\n\
        aof_last_write_status:ok\r\n\
        maxmemory_policy:noeviction\r\nused_memory:100\r\nused_memory_peak:900\r\nmaxmemory:200\r\n";

    #[test]
    fn a_server_that_is_read_only_forgets_or_is_full_is_named() {
        let replicated = INFO.replace("aof_enabled:1", "aof_enabled:0");
        for (info, is_replicated) in [
            (INFO, false),
            (INFO, true),
            (&*replicated, true),
            ("", false),
            (&INFO.replace("maxmemory:200", "maxmemory:0"), false),
        ] {
            assert_eq!(redis_fault(info, is_replicated), None, "{info}");
        }
        for (good, bad) in [("slaves:1", "slaves:0"), ("state=online", "state=wait_bgsave")] {
            let found = redis_fault(&replicated.replace(good, bad), true).unwrap_or_default();
            assert!(found.contains("no replica"), "{bad}: {found:?}");
        }
        for (good, bad, fault) in [
            ("role:master", "role:slave", "replica"),
            ("aof_enabled:1", "aof_enabled:0", "appendonly"),
            ("noeviction", "allkeys-lru", "allkeys-lru"),
            ("maxmemory:200", "maxmemory:100", "is full"),
            ("aof_last_write_status:ok", "aof_last_write_status:err", "disk"),
        ] {
            let found = redis_fault(&INFO.replace(good, bad), false).unwrap_or_default();
            assert!(found.contains(fault), "{bad}: {found:?}");
        }
    }
}
