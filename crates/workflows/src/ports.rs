//! What a sale needs of the world: a Redis server and a SQL ledger.

use std::future::Future;

/// A store that did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Redis did not answer: what was asked may have happened or not.
    #[error("Redis is unavailable: {0}")]
    RedisUnavailable(String),
    /// Redis answered with an error.
    #[error("Redis refused: {0}")]
    RedisRefused(String),
    /// The ledger did not answer, or not in time.
    #[error("the ledger is unavailable: {0}")]
    LedgerUnavailable(String),
    /// The ledger has no tables yet.
    #[error("the ledger has no schema: {0}")]
    LedgerNotMigrated(String),
    /// The sale is being rebuilt: nobody can say now.
    #[error("the sale is being rebuilt")]
    Rebuilding,
    /// A constraint of the ledger said no.
    #[error("the ledger refused: {0}")]
    LedgerRefused(String),
    /// An answer that does not have the agreed shape.
    #[error("an answer that cannot be read: {0}")]
    Malformed(String),
}

impl StoreError {
    /// Tells a server that said no from one that could not be asked, by an error's text: Spin gives no more. Only the
    /// code in it counts, since the rest quotes keys, and those hold names that operators chose. What is not known to
    /// be an answer is none: unknown is not failed.
    #[must_use]
    pub fn from_redis_error(text: String) -> Self {
        // "NOGROUP: No such key …", or with words of the client before what it knows:
        // "An error was signalled by the server - ResponseError: unknown command …".
        let (prefix, detail) = text.split_once(": ").unwrap_or((&text, ""));
        match prefix.rsplit(' ').next().unwrap_or_default() {
            "NoScriptError" => Self::RedisRefused("NOSCRIPT".to_owned()),
            // It ends the connection with that, as with a long command of somebody who has to sign in first.
            "ResponseError" if detail.starts_with("Protocol error") => Self::RedisUnavailable(text),
            "ResponseError" | "CrossSlot" | "NOGROUP" | "BUSYGROUP" | "WRONGTYPE" => Self::RedisRefused(text),
            _ => Self::RedisUnavailable(text),
        }
    }
}

/// An argument of a Redis command.
pub type RedisArg = Vec<u8>;

/// One element of a flattened Redis reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisValue {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Bytes, or a status.
    Bytes(Vec<u8>),
}

/// A Redis server.
pub trait Redis {
    /// Runs one command. Nested replies come flattened, as Spin gives them.
    fn command(&self, name: &str, args: Vec<RedisArg>) -> impl Future<Output = Result<Vec<RedisValue>, StoreError>>;
}

/// A parameter of a statement, or a value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlValue {
    /// SQL null.
    Null,
    /// `INTEGER` or `BIGINT`.
    Int(i64),
    /// `TEXT`.
    Text(String),
}

impl From<i64> for SqlValue {
    fn from(value: i64) -> Self {
        SqlValue::Int(value)
    }
}

impl From<bool> for SqlValue {
    fn from(value: bool) -> Self {
        SqlValue::Int(i64::from(value))
    }
}

impl From<&str> for SqlValue {
    fn from(value: &str) -> Self {
        SqlValue::Text(value.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(value: String) -> Self {
        SqlValue::Text(value)
    }
}

/// Which SQL the ledger speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite, the default.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// A SQL ledger. Statements take `?1`, `?2` …; each stands alone, since connections may be pooled or shared.
pub trait Sql {
    /// Which SQL it speaks.
    fn dialect(&self) -> Dialect;

    /// Runs one statement and returns its rows, all of them.
    fn run(
        &self,
        statement: &str,
        params: Vec<SqlValue>,
    ) -> impl Future<Output = Result<Vec<Vec<SqlValue>>, StoreError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT_PREFIX: &str = "An error was signalled by the server";

    #[test]
    fn redis_errors_are_classified_by_their_code_not_by_key_names() {
        for name in ["showroom", "busy-bees", "loading-dock", "noscript-sale", "readonly", "misconf"] {
            for text in [
                format!(
                    "NOGROUP: No such key '{{{name}}}:orders' or consumer group 'writers' in XREADGROUP with GROUP option"
                ),
                format!("WRONGTYPE: Operation against a key holding the wrong kind of value {{{name}}}:gate"),
                format!("{CLIENT_PREFIX} - ResponseError: Invalid stream ID in {{{name}}}:orders: NOAUTH"),
                "BUSYGROUP: Consumer Group name already exists".to_owned(),
                format!("{CLIENT_PREFIX} - CrossSlot: Keys in request don't hash to the same slot"),
                format!("{CLIENT_PREFIX}- ResponseError"),
            ] {
                assert_eq!(StoreError::from_redis_error(text.clone()), StoreError::RedisRefused(text));
            }
        }
        let text = format!("{CLIENT_PREFIX} - NoScriptError: No matching script. Please use EVAL.");
        assert_eq!(StoreError::from_redis_error(text), StoreError::RedisRefused("NOSCRIPT".to_owned()));
    }

    #[test]
    fn errors_that_leave_the_outcome_unknown_mean_unavailable() {
        for text in [
            "OOM: command not allowed when used memory > 'maxmemory'. script: 3f, on @user_script:34.",
            "MISCONF: Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "BUSY: Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "NOREPLICAS: Not enough good replicas to write. script: 3f, on @user_script:34.",
            "NOAUTH: Authentication required.",
            "WRONGPASS: invalid username-password pair or user is disabled.",
            "NOPERM: User app has no permissions to run the 'evalsha' command",
            "An error was signalled by the server - ResponseError: Protocol error: unauthenticated multibulk length",
            "An error was signalled by the server - BusyLoadingError: Redis is loading the dataset in memory",
            "An error was signalled by the server - ReadOnly: You can't write against a read only replica.",
            "An error was signalled by the server - MasterDown: Link with MASTER is down",
            "An error was signalled by the server - ClusterDown: The cluster is down",
            "Password authentication failed - AuthenticationFailed: WRONGPASS",
            "failed to lookup address information: Name or service not known",
            "Connection refused (os error 111)",
            "broken pipe",
            "",
        ] {
            assert_eq!(StoreError::from_redis_error(text.to_owned()), StoreError::RedisUnavailable(text.to_owned()));
        }
    }
}
