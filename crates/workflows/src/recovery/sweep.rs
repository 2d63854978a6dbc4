//! The sweeper (E3, G3): expires what is due, and finishes what crashes left behind.
//!
//! Every step is bounded, idempotent, and safe to overlap with the same step of another sweeper.

use std::collections::BTreeMap;

use domain::{ids::ActivityId, time::Millis};
use futures::future::join_all;
use serde::Serialize;

use crate::{
    cache::{
        listed_activities,
        warm_up::{WarmUpOutcome, warm_up_if_older},
    },
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
};

/// The lease in the ledger under which sweepers work (G3).
pub const LEASE: &str = "sweeper";

/// The Redis key of the lease for delivering events.
pub const EVENTS_LEASE_KEY: &str = "stampede:events";

/// The Redis key of the lease for erasing old data. It is never released, but expires.
pub const ERASE_LEASE_KEY: &str = "stampede:erase";

/// How long a sweeper may go without renewing its lease, in milliseconds.
pub const LEASE_MS: i64 = 15_000;

/// Orders expired or settled in one batch.
const ORDER_BATCH_SIZE: i64 = 1_000;

/// How long a transition is left to the request that made it before the sweeper settles it, in milliseconds.
const SETTLE_AFTER_MS: i64 = 2_000;

/// How long an operator's change is left to the request that makes it before the sweeper warms up the gate, in
/// milliseconds.
const CHANGE_GRACE_MS: i64 = 10_000;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Orders whose time to pay was over.
    pub expired: usize,
    /// Transitions that Redis had not applied.
    pub settled: usize,
    /// Orders written from messages that no writer had read.
    pub written: usize,
    /// Orders written from messages that another writer had read and not acknowledged.
    pub redelivered: usize,
    /// Orders that the ledger refused.
    pub failed: usize,
    /// Orders about which the ledger gave no answer: their messages stay in the stream.
    pub unanswered: usize,
    /// Gates deleted because their epoch is older than the ledger's: these activities need a rebuild.
    pub fenced: usize,
    /// Activities that are published or paused, have not ended, and have no complete gate in Redis: they need a
    /// rebuild, or to be published again.
    pub without_gate: usize,
    /// Activities whose last change by an operator had not reached Redis, and has now.
    pub preheated: usize,
    /// Activities whose epoch in the ledger was behind their gate after a restore from a backup, and is raised now. A
    /// rebuild writes the orders that the ledger lost.
    pub caught_up: usize,
    /// Payment callbacks processed.
    pub callbacks: usize,
    /// Payment sessions that the provider was asked about.
    pub asked: usize,
    /// Refunds sent to the provider.
    pub refunds: usize,
    /// Events delivered.
    pub events: usize,
    /// Attempts to deliver an event that failed.
    pub events_failed: usize,
    /// Addresses, events and callbacks erased because their retention time was over.
    pub erased: usize,
    /// Whether the time was up, or the lease lost, before the work was done.
    pub more: bool,
    /// What is left for the next sweep.
    pub left: Remaining,
    /// Milliseconds spent on each step.
    pub steps_ms: BTreeMap<&'static str, i64>,
}

/// What a sweep leaves for the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// Messages in the streams.
    pub queued: i64,
    /// Orders whose time to pay is over.
    pub due: i64,
    /// Transitions that Redis has not applied; those of the last two seconds may be under way.
    pub unsettled: i64,
    /// Payment callbacks that are not processed.
    pub callbacks: i64,
    /// Refunds of orders that the provider has not confirmed.
    pub refunds: i64,
}

/// Sorts activities by id and puts those after `resume_after` first, so that those that the last sweep did not reach
/// get their turn (G3).
#[must_use]
pub fn rotate_after(mut activities: Vec<ActivityId>, resume_after: &str) -> Vec<ActivityId> {
    activities.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let first = activities.partition_point(|activity| activity.as_str() <= resume_after);
    activities.rotate_left(first);
    activities
}

/// Expires one batch of orders whose time to pay is over at `now`, and settles them; none if `lease` was lost. Returns
/// how many.
///
/// # Errors
/// [`StoreError`]; expired orders that are not settled are left to [`settle`].
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

/// Settles one batch of unsettled transitions. Skips the first `skipped_orders` rows, whose activity is being rebuilt,
/// and adds those it finds. Returns how many were settled.
///
/// # Errors
/// [`StoreError`]; what was not settled is left to the next sweep.
pub async fn settle<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    skipped_orders: &mut usize,
) -> Result<usize, StoreError> {
    let skip = i64::try_from(*skipped_orders).unwrap_or(i64::MAX);
    let unsettled = orders::load_unsettled(sql, now.plus(-SETTLE_AFTER_MS), ORDER_BATCH_SIZE, skip).await?;
    let settled = settle_by_activity(redis, sql, &unsettled).await?;
    *skipped_orders += unsettled.len() - settled;
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

/// Compares every gate with the ledger.
///
/// - A gate of an older epoch is deleted: an old Redis came back, and the ledger would refuse the orders that it
///   accepts (G5).
/// - A gate of a later epoch raises the epoch of the ledger, which was restored from a backup: otherwise Redis would
///   ignore all transitions.
/// - A gate of an older version is warmed up: an operator's change did not reach Redis. A change that may still be
///   under way is left alone, because half of it could be read.
///
/// # Errors
/// [`StoreError`]; the next sweep checks again.
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
    // All gates are checked concurrently.
    let outcomes =
        join_all(listed.iter().map(|expected| stream::fence(redis, &expected.id, expected.epoch, &[]))).await;
    for (expected, outcome) in listed.iter().zip(outcomes) {
        match outcome? {
            FenceOutcome::Missing => report.without_gate += usize::from(expected.required),
            FenceOutcome::Deleted => report.fenced += 1,
            FenceOutcome::Newer(gate_epoch) => {
                report.caught_up += usize::from(epochs::raise_to(sql, &expected.id, gate_epoch).await?)
            }
            FenceOutcome::Current(version)
                if version < expected.version && now >= expected.changed_at.plus(CHANGE_GRACE_MS) =>
            {
                let Some(activity) = activities::load(sql, &expected.id).await? else { continue };
                // If Redis refuses now, the next sweep tries again; the other activities are not held up.
                let warmed_up = warm_up_if_older(redis, &activity, ticket_secret).await;
                report.preheated += usize::from(warmed_up == Ok(WarmUpOutcome::Done));
            }
            FenceOutcome::Current(_) => {}
        }
    }
    Ok(())
}

/// Removes an activity from the set of activities in Redis if it has ended at `now`, has no gate, and its stream is
/// empty: no later sweep has work for it. Returns how many were removed.
///
/// # Errors
/// [`StoreError`]; repeating it finishes the work.
pub async fn unlist_ended<R: Redis, S: Sql>(redis: &R, sql: &S, now: Millis) -> Result<usize, StoreError> {
    let mut unlisted = 0;
    for activity in listed_activities::list(redis).await? {
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
        // Another request published it at this moment: it creates the gate first, and then adds the activity to the
        // set.
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
/// [`StoreError`] of either store.
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
    let statement = include_str!("../../sql/queries/sweep/count_remaining.sql");
    let rows = sql.run(statement, vec![now.0.into()]).await?;
    let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
    Ok(Remaining { queued, due: row.int()?, unsettled: row.int()?, callbacks: row.int()?, refunds: row.int()? })
}

/// Writes one batch of reclaimed and one of new messages of an activity's stream. Returns whether there may be more.
///
/// # Errors
/// [`StoreError`]; the messages that were read are redelivered.
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
    report.unanswered += reclaimed.unanswered + new.unanswered;
    Ok(reclaimed.messages == order_writer::BATCH_SIZE || new.messages == order_writer::BATCH_SIZE)
}
