//! The sweeper (E3, G3): finishes what time or a crash left behind. Every step is bounded, idempotent, and safe to
//! overlap with another sweeper's.

use std::collections::BTreeMap;

use domain::{ids::ActivityId, time::Millis};
use futures::future::join_all;
use serde::Serialize;

use crate::{
    cache::warm_up::{WarmUpOutcome, warm_up_if_older},
    keys::{ACTIVITIES, Keys},
    ledger::{
        activities, epochs,
        leases::Lease,
        orders::{self, OrderRow},
        row_reader::RowReader,
    },
    payments::commands,
    ports::{Redis, RedisValue, Sql, StoreError},
    queue::{
        order_writer,
        stream::{self, FenceOutcome},
    },
    reply::Reply,
    script,
};

/// The lease under which sweepers work (G3).
pub const LEASE: &str = "sweeper";

/// The key of the lease of whoever delivers events.
pub const EVENTS_LEASE_KEY: &str = "stampede:events";

/// The key of the lease of whoever erases what is old; it runs out by itself.
pub const ERASE_LEASE_KEY: &str = "stampede:erase";

/// How long a sweeper may go without a sign of life, in milliseconds.
pub const LEASE_MS: i64 = 15_000;

/// Orders expired in one statement.
const ORDER_BATCH_SIZE: i64 = 1_000;

/// How long a move is left to whoever made it before the sweeper settles it, in milliseconds.
const SETTLE_AFTER_MS: i64 = 2_000;

/// How long an operator's change is left to whoever makes it, in milliseconds.
const CHANGE_GRACE_MS: i64 = 10_000;

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
    /// Orders that could not be written.
    pub failed: usize,
    /// Gates closed because they are of an older epoch than the ledger's: those sales need a rebuild.
    pub fenced: usize,
    /// Sales on sale that have no whole gate in Redis: they need a rebuild, or to be published again.
    pub without_gate: usize,
    /// Sales whose last change by an operator had not got to Redis, and has now.
    pub preheated: usize,
    /// Sales whose ledger was behind their gate, restored from a backup, and caught up: what it lost, a rebuild puts back.
    pub caught_up: usize,
    /// Payment callbacks finished.
    pub callbacks: usize,
    /// Payment sessions that the provider was asked about.
    pub asked: usize,
    /// Refunds sent to the provider.
    pub refunds: usize,
    /// Events delivered.
    pub events: usize,
    /// Attempts to deliver one that failed.
    pub events_failed: usize,
    /// Addresses, events and callbacks erased because their time was over.
    pub erased: usize,
    /// Whether the time was up, or the lease lost, before the work was done.
    pub more: bool,
    /// What is left.
    pub left: Remaining,
    /// Milliseconds spent on each step.
    pub steps_ms: BTreeMap<&'static str, i64>,
}

/// What a sweep leaves to the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// Messages in the streams.
    pub queued: i64,
    /// Orders whose time is up.
    pub due: i64,
    /// Moves that Redis has not seen; those of the last two seconds are on their way.
    pub unsettled: i64,
    /// Payment callbacks that are not finished.
    pub callbacks: i64,
    /// Refunds that the provider has not confirmed.
    pub refunds: i64,
}

/// Takes, keeps or (with 0 ms) gives up a lease in Redis, for what may be done twice (F2); answers whether `owner` holds it now.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn hold_lease<R: Redis>(redis: &R, key: &str, owner: &str, ttl_ms: i64) -> Result<bool, StoreError> {
    let args = vec![owner.into(), ttl_ms.to_string().into()];
    Ok(script::LEASE.run(redis, vec![key.to_owned()], args).await?.text()? == "held")
}

/// The sales that have a gate.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn list_activities<R: Redis>(redis: &R) -> Result<Vec<ActivityId>, StoreError> {
    let items = redis.command("SMEMBERS", vec![ACTIVITIES.into()]).await?;
    Ok(items
        .into_iter()
        .filter_map(|item| match item {
            RedisValue::Bytes(bytes) => ActivityId::parse(std::str::from_utf8(&bytes).ok()?).ok(),
            _ => None,
        })
        .collect())
}

/// The same, those after `resume_after` first: whoever was left out last time has their turn (G3).
#[must_use]
pub fn rotate_after(mut activities: Vec<ActivityId>, resume_after: &str) -> Vec<ActivityId> {
    activities.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let first = activities.partition_point(|activity| activity.as_str() <= resume_after);
    activities.rotate_left(first);
    activities
}

/// Expires one batch of orders whose time is up at `now`; none where the `lease` is somebody else's by now.
///
/// # Errors
/// [`StoreError`].
pub async fn expire<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    lease: Option<&Lease>,
) -> Result<usize, StoreError> {
    let expired = orders::expire(sql, now, ORDER_BATCH_SIZE, lease).await?;
    settle_by_activity(redis, sql, &expired).await?;
    Ok(expired.len())
}

/// Settles one batch of moves that Redis has not seen, after the first `fenced`, which wait for a rebuild to end; counts
/// those among them that do so, too.
///
/// # Errors
/// [`StoreError`].
pub async fn settle<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    fenced: &mut usize,
) -> Result<usize, StoreError> {
    let skip = i64::try_from(*fenced).unwrap_or(i64::MAX);
    let unsettled = orders::load_unsettled(sql, now.plus(-SETTLE_AFTER_MS), ORDER_BATCH_SIZE, skip).await?;
    let settled = settle_by_activity(redis, sql, &unsettled).await?;
    *fenced += unsettled.len() - settled;
    Ok(settled)
}

async fn settle_by_activity<R: Redis, S: Sql>(redis: &R, sql: &S, rows: &[OrderRow]) -> Result<usize, StoreError> {
    let mut settled = 0;
    let mut by_activity: BTreeMap<ActivityId, Vec<OrderRow>> = BTreeMap::new();
    for row in rows {
        by_activity.entry(row.order.activity().clone()).or_default().push(row.clone());
    }
    for rows in by_activity.values() {
        settled += commands::settle_orders(redis, sql, rows).await?;
    }
    Ok(settled)
}

/// Compares every gate with the ledger. One of an older epoch is closed: an old Redis came back, and what it accepts would
/// be refused (G5). Of a later one: the ledger came back, from a backup, and catches up, or Redis would hear of no move.
/// Of an older version: an operator's change did not get to Redis, and does now; unless it may still be under way, when
/// half of it would be read.
///
/// # Errors
/// [`StoreError`].
pub async fn check_gates<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activities: &[ActivityId],
    ticket_secret: &str,
    now: Millis,
    report: &mut Report,
) -> Result<(), StoreError> {
    let (listed, unlisted): (Vec<_>, Vec<_>) =
        activities::expected_gates(sql, now).await?.into_iter().partition(|expected| activities.contains(&expected.id));
    report.without_gate += unlisted.iter().filter(|expected| expected.required).count();
    // Redis is asked about all of them at once.
    let outcomes =
        join_all(listed.iter().map(|expected| stream::fence(redis, &expected.id, expected.epoch, &[]))).await;
    for (expected, outcome) in listed.iter().zip(outcomes) {
        match outcome? {
            FenceOutcome::Missing => report.without_gate += usize::from(expected.required),
            FenceOutcome::Closed => report.fenced += 1,
            FenceOutcome::Newer(gate_epoch) => {
                report.caught_up += usize::from(epochs::raise_to(sql, &expected.id, gate_epoch).await?)
            }
            FenceOutcome::Current(version)
                if version < expected.version && now >= expected.changed_at.plus(CHANGE_GRACE_MS) =>
            {
                let Some(activity) = activities::load(sql, &expected.id).await? else { continue };
                // What Redis refuses now, it may take at the next sweep; the others are not held up.
                let warmed_up = warm_up_if_older(redis, &activity, ticket_secret).await;
                report.preheated += usize::from(warmed_up == Ok(WarmUpOutcome::Done));
            }
            FenceOutcome::Current(_) => {}
        }
    }
    Ok(())
}

/// Takes sales off the list whose end is over at `now` and whose gate is gone, with nothing left in their streams: there is
/// nothing of them to be looked for. Answers how many.
///
/// # Errors
/// [`StoreError`].
pub async fn unlist_ended<R: Redis, S: Sql>(redis: &R, sql: &S, now: Millis) -> Result<usize, StoreError> {
    let mut unlisted = 0;
    for activity in list_activities(redis).await? {
        let keys = Keys::of(&activity);
        let has_gate = async || {
            let gate = redis.command("EXISTS", vec![keys.named("gate").into()]).await;
            gate.map(|exists| exists == [RedisValue::Int(1)])
        };
        let queued = redis.command("XLEN", vec![keys.named("orders").into()]).await?;
        if has_gate().await? || queued != [RedisValue::Int(0)] {
            continue;
        }
        let ended_query = "SELECT id FROM activities WHERE id = ?1 AND ends_at <= ?2";
        if sql.run(ended_query, vec![activity.as_str().into(), now.0.into()]).await?.is_empty() {
            continue;
        }
        let list_entry = vec![ACTIVITIES.into(), activity.as_str().into()];
        redis.command("SREM", list_entry.clone()).await?;
        // Somebody published it at this moment: its gate comes first, and then its place in the list.
        if has_gate().await? {
            redis.command("SADD", list_entry).await?;
            continue;
        }
        unlisted += 1;
    }
    Ok(unlisted)
}

/// Counts what is left at `now`.
///
/// # Errors
/// [`StoreError`].
pub async fn count_remaining<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activities: &[ActivityId],
    now: Millis,
) -> Result<Remaining, StoreError> {
    let mut queued = 0;
    let length = |activity| redis.command("XLEN", vec![Keys::of(activity).named("orders").into()]);
    for length in join_all(activities.iter().map(length)).await {
        queued += Reply::new(length?).int()?;
    }
    let statement = "SELECT \
        (SELECT COUNT(*) FROM orders WHERE status = 'pending_payment' AND pay_by <= ?1), \
        (SELECT COUNT(*) FROM orders WHERE unsettled = 1), \
        (SELECT COUNT(*) FROM callbacks WHERE outcome = ''), \
        (SELECT COUNT(*) FROM refunds WHERE state <> 'confirmed')";
    let rows = sql.run(statement, vec![now.0.into()]).await?;
    let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
    Ok(Remaining { queued, due: row.int()?, unsettled: row.int()?, callbacks: row.int()?, refunds: row.int()? })
}

/// Drains one batch of one activity's stream: what was never taken, and what was taken and not finished.
///
/// # Errors
/// [`StoreError`].
pub async fn drain_batch<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    report: &mut Report,
) -> Result<bool, StoreError> {
    let reclaimed = order_writer::write_reclaimed(redis, sql, activity, now, order_writer::REDELIVER_AFTER_MS).await?;
    let new = order_writer::write_new(redis, sql, activity, now).await?;
    report.redelivered += reclaimed.written;
    report.written += new.written;
    report.failed += reclaimed.failed + new.failed;
    Ok(reclaimed.messages == order_writer::BATCH_SIZE || new.messages == order_writer::BATCH_SIZE)
}
