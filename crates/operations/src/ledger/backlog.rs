//! Counts of work in the ledger that waits for a sweep, the shop's endpoint, a provider or an operator.
//!
//! Indexes serve the queries.

use domain::{ids::ActivityId, time::Millis};
use payments::ledger::callback_outcomes::unparked_outcomes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stores::{
    ledger::{clock, row_reader::RowReader},
    ports::{Sql, StoreError},
};

/// How long the time to pay has been over of orders that sweeps should have released, in milliseconds: one with an open
/// session takes two sweeps.
const LATE_MS: i64 = 120_000;

/// How long ago a change was that Redis should have confirmed, in milliseconds.
const UNSYNCED_MS: i64 = 3_000;

/// Counts of waiting work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Events to be delivered (E7).
    pub events: i64,
    /// When the oldest of them happened; 0 (1970) if there is none.
    pub oldest_event_at: Millis,
    /// Events that failed for good: the shop has not heard of them.
    pub failed_events: i64,
    /// Refunds and overpayments that no provider has confirmed (E4).
    pub refunds: i64,
    /// When the oldest of them was asked for, but for overpayments; 0 (1970) if there is none.
    pub oldest_refund_at: Millis,
    /// Of those, the ones whose last attempt failed or was not answered.
    pub stuck_refunds: i64,
    /// Callbacks that sweeps have failed to apply three times.
    pub stuck_callbacks: i64,
    /// Payment sessions whose provider has not answered three times.
    pub unanswered_sessions: i64,
    /// Callbacks parked for an operator (E2).
    pub parked_callbacks: i64,
    /// Dead letters not requeued since they last failed (D4).
    pub dead_letters: i64,
    /// Gates that stopped and rebuilds that were interrupted: a sweep makes or ends the rebuild.
    pub rebuilds: i64,
    /// Times that Redis had lost orders of a sale, which was rebuilt (G16).
    pub redis_losses: i64,
    /// Disputes of orders' payments that are not decided (G21).
    pub disputes: i64,
    /// What sweeps have left; of orders whose time to pay is over, those for two minutes.
    pub remaining: Remaining,
    /// Activities that are published or paused, and not over: each needs a gate in Redis.
    pub on_sale: Vec<ActivityId>,
}

/// What a sweep leaves for the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Remaining {
    /// Messages in the streams.
    #[schemars(range(min = 0))]
    pub queued: i64,
    /// Orders whose time to pay is over.
    #[schemars(range(min = 0))]
    pub due: i64,
    /// Changes of orders at least three seconds ago that Redis has not confirmed.
    #[schemars(range(min = 0))]
    pub unsynced: i64,
    /// Payment callbacks that are not processed.
    #[schemars(range(min = 0))]
    pub callbacks: i64,
    /// Refunds of orders that the provider has not confirmed.
    #[schemars(range(min = 0))]
    pub refunds: i64,
}

/// Counts what the ledger shows of [`Remaining`]: orders due at `now`, and those that changed until `before`.
pub async fn count_remaining<S: Sql>(sql: &S, now: Millis, before: Millis) -> Result<Remaining, StoreError> {
    let rows =
        sql.run(include_str!("../../sql/backlog/count_remaining.sql"), vec![now.0.into(), before.0.into()]).await?;
    let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
    Ok(Remaining { queued: 0, due: row.int()?, unsynced: row.int()?, callbacks: row.int()?, refunds: row.int()? })
}

/// Counts the waiting work.
pub async fn load<S: Sql>(sql: &S) -> Result<Backlog, StoreError> {
    let now = clock::now(sql).await?;
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
    let rows = sql.run(&statement, vec![now.0.into()]).await?;
    let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
    let on_sale = "SELECT id FROM activities WHERE state IN ('published', 'paused') AND ends_at > ?1 ORDER BY id";
    let on_sale = sql.run(on_sale, vec![now.0.into()]).await?.into_iter().map(RowReader::new);
    Ok(Backlog {
        on_sale: on_sale.map(|mut row| row.parse(ActivityId::parse)).collect::<Result<_, _>>()?,
        remaining: count_remaining(sql, now.plus(-LATE_MS), now.plus(-UNSYNCED_MS)).await?,
        events: row.int()?,
        oldest_event_at: Millis(row.int()?),
        failed_events: row.int()?,
        refunds: row.int()?,
        oldest_refund_at: Millis(row.int()?),
        stuck_refunds: row.int()?,
        stuck_callbacks: row.int()?,
        unanswered_sessions: row.int()?,
        parked_callbacks: row.int()?,
        dead_letters: row.int()?,
        rebuilds: row.int()?,
        redis_losses: row.int()?,
        disputes: row.int()?,
    })
}
