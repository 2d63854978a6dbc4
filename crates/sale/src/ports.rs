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
    LedgerEmpty(String),
    /// A constraint of the ledger said no.
    #[error("the ledger refused: {0}")]
    LedgerRefused(String),
    /// An answer that does not have the agreed shape.
    #[error("an answer that cannot be read: {0}")]
    Unreadable(String),
}

/// An argument of a Redis command.
pub type Arg = Vec<u8>;

/// One element of a flattened Redis reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
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
    fn command(&self, name: &str, args: Vec<Arg>) -> impl Future<Output = Result<Vec<Item>, StoreError>>;
}

/// A parameter of a statement, or a value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// SQL null.
    Null,
    /// `INTEGER` or `BIGINT`.
    Int(i64),
    /// `TEXT`.
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Int(i64::from(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
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
    fn run(&self, statement: &str, params: Vec<Value>) -> impl Future<Output = Result<Vec<Vec<Value>>, StoreError>>;
}
