//! The sweeper (E3, G3): finishes what time or a crash left behind. Every step is bounded, idempotent, and safe to
//! overlap with another sweeper's.

use std::collections::BTreeMap;

use serde::Serialize;
use stampede_domain::{ids::ActivityId, time::Millis};

use crate::{
    keys::ACTIVITIES,
    ledger::orders::{self, Entry},
    money,
    ports::{Item, Redis, Sql, StoreError},
    script::LEASE,
    write,
};

/// The key of the sweeper's lease.
pub const LEASE_KEY: &str = "stampede:sweeper";

/// How long a sweeper may go without a sign of life, in milliseconds.
pub const LEASE_MS: i64 = 15_000;

/// Orders expired in one statement.
const EXPIRE_BATCH: i64 = 1_000;

/// How long a move is left to whoever made it before the sweeper settles it, in milliseconds.
const SETTLE_AFTER_MS: i64 = 2_000;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Orders whose time was up.
    pub expired: usize,
    /// Moves of the ledger that Redis had not seen.
    pub settled: usize,
    /// Messages written that were waiting in a stream.
    pub written: usize,
    /// Messages written that another writer had taken and not finished.
    pub redelivered: usize,
    /// Orders that the ledger had no room for.
    pub failed: usize,
    /// Payment callbacks finished.
    pub callbacks: usize,
    /// Refunds sent to the provider.
    pub refunds: usize,
    /// Whether the time was up before the work was.
    pub more: bool,
}

/// Takes, keeps or (with 0 ms) gives up a lease; answers whether `owner` holds it now.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn lease_of<R: Redis>(redis: &R, key: &str, owner: &str, ms: i64) -> Result<bool, StoreError> {
    let args = vec![owner.into(), ms.to_string().into()];
    Ok(LEASE.run(redis, vec![key.to_owned()], args).await?.text()? == "held")
}

/// The sales that have a gate.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn activities<R: Redis>(redis: &R) -> Result<Vec<ActivityId>, StoreError> {
    let items = redis.command("SMEMBERS", vec![ACTIVITIES.into()]).await?;
    Ok(items
        .into_iter()
        .filter_map(|item| match item {
            Item::Bytes(bytes) => ActivityId::parse(std::str::from_utf8(&bytes).ok()?).ok(),
            _ => None,
        })
        .collect())
}

/// Expires one batch of orders whose time is up at `now`.
///
/// # Errors
/// [`StoreError`].
pub async fn expire<R: Redis, S: Sql>(redis: &R, sql: &S, now: Millis) -> Result<usize, StoreError> {
    let expired = orders::expire(sql, now, EXPIRE_BATCH).await?;
    bring_along_by_activity(redis, sql, &expired).await?;
    Ok(expired.len())
}

/// Settles one batch of moves that Redis has not seen.
///
/// # Errors
/// [`StoreError`].
pub async fn settle<R: Redis, S: Sql>(redis: &R, sql: &S, now: Millis) -> Result<usize, StoreError> {
    let unsettled = orders::unsettled(sql, now.plus(-SETTLE_AFTER_MS), EXPIRE_BATCH).await?;
    bring_along_by_activity(redis, sql, &unsettled).await?;
    Ok(unsettled.len())
}

async fn bring_along_by_activity<R: Redis, S: Sql>(redis: &R, sql: &S, entries: &[Entry]) -> Result<(), StoreError> {
    let mut by_activity: BTreeMap<ActivityId, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        by_activity.entry(entry.order.activity().clone()).or_default().push(entry.clone());
    }
    for entries in by_activity.values() {
        money::bring_along(redis, sql, entries).await?;
    }
    Ok(())
}

/// Drains one batch of one activity's stream: what was never taken, and what was taken and not finished.
///
/// # Errors
/// [`StoreError`].
pub async fn drain<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    report: &mut Report,
) -> Result<bool, StoreError> {
    let again = write::tick_redelivered(redis, sql, activity, now, write::REDELIVER_AFTER_MS).await?;
    let fresh = write::tick(redis, sql, activity, now).await?;
    report.redelivered += again.written;
    report.written += fresh.written;
    report.failed += again.failed + fresh.failed;
    Ok(again.taken == write::BATCH || fresh.taken == write::BATCH)
}
