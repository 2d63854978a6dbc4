//! Traits for the stores: a Redis server, a SQL ledger and a key-value store; and the error of the first two.

use std::future::Future;

use domain::time::Millis;

/// A failed call to Redis or to the ledger.
///
/// An unavailable store leaves the outcome unknown: the command may or may not have run. A refusal is a definite
/// answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// Redis gave no usable answer: the command may or may not have run.
    #[error("Redis is unavailable: {0}")]
    RedisUnavailable(String),
    /// Redis answered with an error.
    #[error("Redis refused: {0}")]
    RedisRefused(String),
    /// Redis does not have the script that an `EVALSHA` names.
    #[error("Redis has not loaded the script")]
    ScriptNotLoaded,
    /// The ledger gave no answer in time: the statement may or may not have run.
    #[error("the ledger is unavailable: {0}")]
    LedgerUnavailable(String),
    /// The ledger has no tables yet: its migrations have not run.
    #[error("the ledger has no schema: {0}")]
    LedgerNotMigrated(String),
    /// The issuer gave no usable answer to a request for its keys.
    #[error("the issuer's keys are unavailable: {0}")]
    IssuerUnavailable(String),
    /// The activity's Redis data is being rebuilt from the ledger: retry after the rebuild.
    #[error("the sale is being rebuilt")]
    Rebuilding,
    /// A constraint of the ledger rejected the statement, which changed nothing.
    #[error("the ledger refused: {0}")]
    LedgerRefused(String),
    /// The ledger cannot store a value of the statement, which changed nothing. A retry has the same result.
    #[error("the ledger cannot store a value: {0}")]
    LedgerDataException(String),
    /// A reply, a row or a setting does not have the expected form.
    #[error("an answer that cannot be read: {0}")]
    Malformed(String),
}

impl StoreError {
    /// The kind of the error, for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RedisUnavailable(_) | Self::LedgerUnavailable(_) | Self::IssuerUnavailable(_) => "unavailable",
            Self::RedisRefused(_) | Self::LedgerRefused(_) | Self::LedgerDataException(_) => "refused",
            Self::ScriptNotLoaded | Self::LedgerNotMigrated(_) => "not_loaded",
            Self::Rebuilding => "rebuilding",
            Self::Malformed(_) => "malformed",
        }
    }

    /// Classifies a Redis error by its text, which is all that Spin passes on.
    ///
    /// Only the error code in the text is compared: the rest quotes keys, which contain names that operators chose. An
    /// unrecognised error is [`Self::RedisUnavailable`], because the command may have run.
    #[must_use]
    pub fn from_redis_error(text: String) -> Self {
        let (code, detail) = redis_error_code(&text);
        match code {
            "NoScriptError" => Self::ScriptNotLoaded,
            // Redis closes the connection after a protocol error, for example when an unauthenticated client sends a
            // long command.
            "ResponseError" if detail.starts_with("Protocol error") => Self::RedisUnavailable(text),
            "ResponseError" | "CrossSlot" | "WRONGTYPE" | "NOGROUP" | "BUSYGROUP" => Self::RedisRefused(text),
            _ => Self::RedisUnavailable(text),
        }
    }

    /// Whether a command that failed with this error is to be sent again over a new connection.
    ///
    /// It is not if the server answered that it cannot serve now, for a reason that every connection to it meets. A
    /// server that is a replica (`READONLY`, `MASTERDOWN`), or cut off from its cluster, may be a former primary whose name
    /// leads to another server by now; one that asks for a password was restarted with one, or the connection lost its login.
    #[must_use]
    pub fn needs_new_connection(&self) -> bool {
        let Self::RedisUnavailable(text) = self else { return false };
        let code = redis_error_code(text).0;
        !SERVER_CANNOT_SERVE.iter().any(|known| known.eq_ignore_ascii_case(code))
    }

    /// The address of the server of a Redis Cluster that this error sends the command to: `host:port`, without a host if
    /// it is that of the server that answered.
    #[must_use]
    pub fn moved_to(&self) -> Option<&str> {
        let Self::RedisUnavailable(text) = self else { return None };
        match redis_error_code(text) {
            ("MOVED" | "Moved", detail) => detail.split_ascii_whitespace().nth(1),
            _ => None,
        }
    }
}

/// Codes of the errors that a Redis server answers while it cannot serve, over any connection. The client library writes
/// some in its own way.
const SERVER_CANNOT_SERVE: [&str; 10] =
    ["OOM", "MISCONF", "BUSY", "NOREPLICAS", "NOPERM", "LOADING", "BusyLoadingError", "TRYAGAIN", "ASK", "MOVED"];

/// Splits a Redis error into its code and its detail. Two forms are known: "NOGROUP: No such key …", and with a prefix
/// from the client library "An error was signalled by the server - ResponseError: unknown command …".
fn redis_error_code(text: &str) -> (&str, &str) {
    let (prefix, detail) = text.split_once(": ").unwrap_or((text, ""));
    (prefix.rsplit(' ').next().unwrap_or_default(), detail)
}

/// An argument of a Redis command.
pub type RedisArg = Vec<u8>;

/// One element of a flattened Redis reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RedisValue {
    /// Null.
    Nil,
    /// An integer reply.
    Int(i64),
    /// A bulk string or a status reply.
    Bytes(Vec<u8>),
}

/// A Redis server.
pub trait Redis {
    /// Runs one command. Nested replies are flattened, as Spin does.
    ///
    /// # Errors
    /// `RedisUnavailable` or `RedisRefused`.
    fn command(&self, name: &str, args: Vec<RedisArg>) -> impl Future<Output = Result<Vec<RedisValue>, StoreError>>;
}

/// A statement parameter or a column value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SqlValue {
    /// SQL `NULL`.
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

/// SQL dialect of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite, the default.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Dialect {
    /// Returns a query of the texts in the JSON array that is the parameter `parameter`, such as `?1`.
    pub fn json_values(self, parameter: &str) -> String {
        match self {
            Self::Sqlite => format!("SELECT value FROM json_each({parameter})"),
            Self::Postgres => format!("SELECT jsonb_array_elements_text(({parameter}::text)::jsonb)"),
        }
    }

    /// Returns the last `chars` characters of a column, as indexes of the schema name them.
    pub fn end_of(self, column: &str, chars: u32) -> String {
        match self {
            Self::Sqlite => format!("substr({column}, -{chars})"),
            Self::Postgres => format!("right({column}, {chars})"),
        }
    }

    /// Returns an aggregate: the JSON array of the values of `expression`, as text.
    pub fn json_array_of(self, expression: &str) -> String {
        match self {
            Self::Sqlite => format!("json_group_array({expression})"),
            Self::Postgres => format!("COALESCE(CAST(json_agg({expression}) AS TEXT), '[]')"),
        }
    }

    /// Returns the rows of the JSON array of arrays that is the parameter `parameter`, as a table, and its first three
    /// columns: texts on PostgreSQL, so that a number is to be cast.
    pub fn json_rows(self, parameter: &str) -> (String, [&'static str; 3]) {
        match self {
            Self::Sqlite => {
                (format!("json_each({parameter}) AS e"), ["e.value ->> 0", "e.value ->> 1", "e.value ->> 2"])
            }
            Self::Postgres => {
                (format!("jsonb_array_elements(({parameter}::text)::jsonb) AS e"), ["e ->> 0", "e ->> 1", "e ->> 2"])
            }
        }
    }
}

/// A SQL ledger. Parameters are written `?1`, `?2` … Each statement stands alone: no transaction spans two calls,
/// because connections may be pooled or shared.
pub trait Sql {
    /// The ledger's SQL dialect.
    fn dialect(&self) -> Dialect;

    /// Begins an independent piece of work: a statement that timed out in an earlier one does not make this one fail.
    fn forget_timeouts(&self) {}

    /// Runs one statement and returns all of its rows.
    ///
    /// # Errors
    /// `LedgerUnavailable`, `LedgerNotMigrated`, `LedgerRefused` or `LedgerDataException`.
    fn run(
        &self,
        statement: &str,
        params: Vec<SqlValue>,
    ) -> impl Future<Output = Result<Vec<Vec<SqlValue>>, StoreError>>;
}

/// A key-value store with copies that all instances share, and what a request needs to use one or wait for one: a
/// clock and randomness.
pub trait KeyValue {
    /// Reads a copy; `None` if there is none or the store failed.
    fn read_copy(&self, key: &str) -> impl Future<Output = Option<Vec<u8>>>;

    /// Writes a copy, if the store works.
    fn write_copy(&self, key: &str, value: &[u8]) -> impl Future<Output = ()>;

    /// The time by the instance's clock.
    fn now(&self) -> Millis;

    /// Waits for `ms` milliseconds.
    fn sleep(&self, ms: i64) -> impl Future<Output = ()>;

    /// 128 random bits.
    fn random_bits(&self) -> u128;
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT_PREFIX: &str = "An error was signalled by the server";

    #[test]
    fn redis_errors_are_classified_by_their_code_not_by_key_names() {
        for name in ["showroom", "busy-bees", "loading-dock", "noscript-sale", "readonly", "misconf"] {
            let text = format!("NOGROUP: No such key '{{{name}}}:orders' or consumer group 'writers' in XREADGROUP");
            for text in [
                text,
                format!("WRONGTYPE: Operation against a key holding the wrong kind of value {{{name}}}:gate"),
                format!("{CLIENT_PREFIX} - ResponseError: Invalid stream ID in {{{name}}}:orders: NOAUTH"),
                format!("{CLIENT_PREFIX} - CrossSlot: Keys in request don't hash to the same slot"),
                format!("{CLIENT_PREFIX}- ResponseError"),
            ] {
                assert_eq!(StoreError::from_redis_error(text.clone()), StoreError::RedisRefused(text));
            }
        }
        let text = format!("{CLIENT_PREFIX} - NoScriptError: No matching script. Please use EVAL.");
        assert_eq!(StoreError::from_redis_error(text), StoreError::ScriptNotLoaded);
    }

    #[test]
    fn an_unknown_outcome_means_unavailable_and_a_server_that_cannot_serve_keeps_the_connection() {
        let server = |error: &str| format!("{CLIENT_PREFIX} - {error}");
        let kept = [
            "OOM: command not allowed when used memory > 'maxmemory'. script: 3f, on @user_script:34.",
            "MISCONF: Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "BUSY: Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "NOREPLICAS: Not enough good replicas to write. script: 3f, on @user_script:34.",
            "NOPERM: User app has no permissions to run the 'evalsha' command",
            "LOADING: Redis is loading the dataset in memory",
            &server("BusyLoadingError: Redis is loading the dataset in memory"),
            &server("TryAgain: a reason"),
            &server("Ask: 12539 10.1.0.3:6379"),
            &server("Moved: 12539 10.1.0.3:6379"),
        ];
        let replaced = [
            "READONLY: You can't write against a read only replica.",
            "NOAUTH: Authentication required.",
            "WRONGPASS: invalid username-password pair or user is disabled.",
            &server("ResponseError: Protocol error: unauthenticated multibulk length"),
            &server("ReadOnly: You can't write against a read only replica."),
            &server("MasterDown: Link with MASTER is down"),
            &server("ClusterDown: The cluster is down"),
            "Password authentication failed - AuthenticationFailed: WRONGPASS",
            "failed to lookup address information: Name or service not known",
            "Connection refused (os error 111)",
            "BUSY but not a code",
            "broken pipe",
            "",
        ];
        for text in kept.iter().chain(&replaced) {
            let error = StoreError::from_redis_error((*text).to_owned());
            assert_eq!(error, StoreError::RedisUnavailable((*text).to_owned()));
            assert_eq!(error.needs_new_connection(), replaced.contains(text), "{text}");
        }
        let moved_to = |text: &str| StoreError::from_redis_error(text.to_owned()).moved_to().map(str::to_owned);
        assert_eq!(moved_to(&server("Moved: 12539 10.1.0.3:6379")).as_deref(), Some("10.1.0.3:6379"));
        assert_eq!(moved_to("MOVED: 12539 :6379").as_deref(), Some(":6379"));
        assert_eq!(moved_to(&server("Ask: 12539 10.1.0.3:6379")), None);
        assert!(!StoreError::RedisRefused("broken pipe".to_owned()).needs_new_connection());
    }
}
