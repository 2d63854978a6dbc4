//! The ledger's clock, which decides until when an order can be paid.

use domain::time::Millis;

use super::row_reader::RowReader;
use crate::ports::{Dialect, Sql, StoreError};

/// The time at which a statement decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The ledger's, when it runs the statement.
    Ledger,
    /// A given time: a sweep has read the ledger's clock once, and a test has a clock of its own.
    At(Millis),
}

impl From<Millis> for Clock {
    fn from(now: Millis) -> Self {
        Self::At(now)
    }
}

impl Clock {
    /// The time as a SQL expression, in milliseconds since 1970. On PostgreSQL each occurrence in a statement reads the clock.
    #[must_use]
    pub fn sql(self, dialect: Dialect) -> String {
        let ms = match (self, dialect) {
            (Self::At(now), _) => now.0.to_string(),
            (Self::Ledger, Dialect::Sqlite) => "unixepoch('subsec') * 1000".to_owned(),
            (Self::Ledger, Dialect::Postgres) => "EXTRACT(EPOCH FROM clock_timestamp()) * 1000".to_owned(),
        };
        format!("CAST({ms} AS BIGINT)")
    }
}

/// Returns the time of the ledger's clock.
pub async fn now<S: Sql>(sql: &S) -> Result<Millis, StoreError> {
    let statement = format!("SELECT {}", Clock::Ledger.sql(sql.dialect()));
    let row = sql.run(&statement, Vec::new()).await?.into_iter().next().unwrap_or_default();
    RowReader::new(row).int().map(Millis)
}
