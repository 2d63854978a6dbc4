//! Counts of work in the ledger that waits for the shop's endpoint, a provider or an operator.
//!
//! Metrics read them with one query, which indexes serve.

use domain::time::Millis;
use payments::ledger::callback_outcomes::unparked_outcomes;
use serde::{Deserialize, Serialize};
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

/// Counts of waiting work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Events to be delivered (E7).
    pub events: i64,
    /// When the oldest of them happened; 0 (1970) if there is none.
    pub oldest_event_at: Millis,
    /// Refunds and overpayments that no provider has confirmed (E4).
    pub refunds: i64,
    /// Of those, the ones whose last attempt failed or was not answered.
    pub stuck_refunds: i64,
    /// Callbacks parked for an operator (E2).
    pub parked_callbacks: i64,
    /// Dead letters not requeued since they last failed (D4).
    pub dead_letters: i64,
    /// Times that Redis had lost orders of a sale, which was rebuilt (G16).
    pub redis_losses: i64,
}

/// Counts the waiting work.
pub async fn load<S: Sql>(sql: &S) -> Result<Backlog, StoreError> {
    let refunds = |filter: &str| {
        format!(
            "(SELECT COUNT(*) FROM refunds WHERE state <> 'confirmed' {filter}) \
             + (SELECT COUNT(*) FROM overpayments WHERE state <> 'confirmed' {filter}) \
             + (SELECT COUNT(*) FROM refund_parts WHERE state <> 'confirmed' {filter})"
        )
    };
    let statement = format!(
        include_str!("../../sql/backlog/load.sql"),
        refunds = refunds(""),
        stuck_refunds = refunds("AND last_error <> ''"),
        unparked_outcomes = unparked_outcomes(),
    );
    let rows = sql.run(&statement, Vec::new()).await?;
    let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
    Ok(Backlog {
        events: row.int()?,
        oldest_event_at: Millis(row.int()?),
        refunds: row.int()?,
        stuck_refunds: row.int()?,
        parked_callbacks: row.int()?,
        dead_letters: row.int()?,
        redis_losses: row.int()?,
    })
}
