//! Checks the settings of a Redis server, without which it may lose data (G6).

/// Returns what is wrong with a Redis server, from its reply to `INFO`: it must be writable, have memory left, persist
/// its data and evict nothing. A setting that the server does not show passes.
#[must_use]
pub fn redis_fault(info: &str) -> Option<String> {
    let setting = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if setting("role") == Some("slave") {
        return Some("is a read-only replica: point the app at the master, or send it 'replicaof no one'".to_owned());
    }
    if setting("aof_enabled") == Some("0") {
        return Some("appendonly is off: set 'appendonly yes' in redis.conf".to_owned());
    }
    if let Some(policy) = setting("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        return Some(format!("maxmemory-policy is {policy}: set 'maxmemory-policy noeviction' in redis.conf"));
    }
    let bytes = |name| setting(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    let (used, limit) = (bytes("used_memory"), bytes("maxmemory"));
    (limit > 0 && used >= limit).then(|| format!("is full: it uses {used} bytes, and maxmemory is {limit}: raise it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n\
        used_memory:100\r\nused_memory_peak:900\r\nmaxmemory:200\r\n";

    #[test]
    fn a_server_that_is_read_only_forgets_or_is_full_is_named() {
        assert_eq!(redis_fault(INFO), None);
        assert_eq!(redis_fault(""), None, "the server hides its settings");
        assert_eq!(redis_fault(&INFO.replace("maxmemory:200", "maxmemory:0")), None, "no limit");
        for (good, bad, fault) in [
            ("role:master", "role:slave", "replica"),
            ("aof_enabled:1", "aof_enabled:0", "appendonly"),
            ("noeviction", "allkeys-lru", "allkeys-lru"),
            ("maxmemory:200", "maxmemory:100", "is full"),
        ] {
            let found = redis_fault(&INFO.replace(good, bad)).unwrap_or_default();
            assert!(found.contains(fault), "{bad}: {found:?}");
        }
    }
}
