//! The passes of activities in a sweep (E3, G3): each writes an activity's messages, and expires and syncs its orders.
//!
//! Every step is bounded, idempotent, and safe to overlap with the same step of another sweeper. An activity whose
//! stores fail is left to the next sweep, and the others go on.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    time::{Duration, Instant},
};

use domain::{
    ids::{ActivityId, OrderNo},
    time::Millis,
};
use futures::future::join_all;
use orders::{
    ledger::{
        order_changes,
        order_rows::{self, OrderRow},
        unsynced,
    },
    order_record::Transition,
    order_writer::{self, DrainBudget, time_since},
    stream,
    sync::{self, SyncOutcome, apply_transitions},
};
use sale::ledger::activities::{self, RETENTION_AFTER_END_MS};
use stores::{
    ledger::leases::{self, Lease},
    ports::{Redis, Sql, StoreError},
};

use crate::{
    ledger::backlog::{self, Remaining},
    upkeep::{
        report::Report,
        restore::{Source, restore},
    },
};

/// The lease in the ledger under which sweepers work (G3).
pub const LEASE: &str = "sweeper";

/// How long a sweeper may go without renewing its lease, in milliseconds.
pub const LEASE_MS: i64 = 15_000;

/// Orders expired or synced in one batch.
pub const ORDER_BATCH_SIZE: i64 = 1_000;

/// How long after an order's change the sweeper looks whether Redis has it, in milliseconds: longer than the writes that
/// a Redis with `appendfsync everysec` may lose (2 s), or a replica may lack.
pub const SYNC_AFTER_MS: i64 = 3_000;

/// How long an activity keeps the sweep while it has work, so that a long queue does not hold up other activities.
const PASS: Duration = Duration::from_secs(1);

/// Sorts activities by id and puts those after `resume_after` first, so that those that the last sweep did not reach
/// are next (G3).
#[must_use]
pub fn rotate_after(mut activities: Vec<ActivityId>, resume_after: &str) -> Vec<ActivityId> {
    activities.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let first = activities.partition_point(|activity| activity.as_str() <= resume_after);
    activities.rotate_left(first);
    activities
}

/// Works on every activity that has due orders, unconfirmed changes or messages, pass by pass, beginning after the activity
/// that had the last pass (G3). `queued` are the activities with messages in their stream; `elapsed` is the time since
/// `now`.
///
/// # Errors
/// [`StoreError`] of the ledger, on finding the activities or renewing the lease. An activity that a store fails on is
/// recorded in the report.
pub async fn work_in_passes<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    lease: &mut Lease,
    queued: &BTreeSet<ActivityId>,
    now: Millis,
    (elapsed, budget): (&dyn Fn() -> Duration, Duration),
    report: &mut Report,
) -> Result<(), StoreError> {
    let due = activities::list_with_due_orders(sql, now, now.plus(-SYNC_AFTER_MS)).await?;
    let with_work: BTreeSet<_> = due.into_iter().chain(queued.iter().cloned()).collect();
    let mut waiting = VecDeque::from(rotate_after(with_work.into_iter().collect(), &lease.resume_after));
    let mut last_renewal = Instant::now();
    while let Some(activity) = waiting.pop_front() {
        if elapsed() >= budget {
            report.more = true;
            return Ok(());
        }
        lease.resume_after = activity.to_string();
        let pass_started = Instant::now();
        sql.forget_timeouts();
        let result = loop {
            let (has_messages, now) = (queued.contains(&activity), now.plus(elapsed().as_millis() as i64));
            match work_once(redis, sql, &activity, has_messages, now, Some(&*lease), report).await {
                Ok(true) if pass_started.elapsed() < PASS => {}
                result => break result,
            }
        };
        match result {
            Ok(true) => waiting.push_back(activity),
            Ok(false) => {}
            Err(error) => report.add_failure(&activity, &error),
        }
        sql.forget_timeouts();
        if last_renewal.elapsed() < PASS && !waiting.is_empty() {
            continue;
        }
        last_renewal = Instant::now();
        if !leases::renew(sql, lease, now.plus(elapsed().as_millis() as i64 + LEASE_MS)).await? {
            report.more = true;
            return Ok(());
        }
    }
    Ok(())
}

/// Drains an activity's stream for a moment if it `has_messages`; expires and syncs one batch each of its orders.
/// Returns whether there may be more.
///
/// # Errors
/// [`StoreError`]; what was begun is finished by the next sweep.
async fn work_once<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    has_messages: bool,
    now: Millis,
    lease: Option<&Lease>,
    report: &mut Report,
) -> Result<bool, StoreError> {
    let step = Instant::now();
    let drained = if has_messages { drain(redis, sql, activity, now, report).await } else { Ok(false) };
    report.add_time("drain", step);
    // A message that cannot be written delays no expiry. A ledger that does not answer would only be waited for again.
    if drained.is_err() && step.elapsed() > PASS {
        return drained;
    }
    sql.forget_timeouts();
    let step = Instant::now();
    let expired = expire(redis, sql, activity, now, lease).await?;
    report.add_time("expire", step);
    report.expired += expired;
    let step = Instant::now();
    let (examined, synced) = sync(redis, sql, activity, now).await?;
    report.add_time("sync", step);
    report.synced += synced;
    let full = |count: usize| count as i64 == ORDER_BATCH_SIZE;
    Ok(drained? || full(expired) || full(examined))
}

/// Expires one batch of an activity's orders whose time to pay is over at `now`, and syncs them; none if `lease` was
/// lost. Returns how many.
///
/// # Errors
/// [`StoreError`]; expired orders that are not synced are left to [`sync`].
pub async fn expire<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    lease: Option<&Lease>,
) -> Result<usize, StoreError> {
    let expired = order_changes::expire(sql, activity, now, ORDER_BATCH_SIZE, lease).await?;
    apply_transitions(redis, activity, &expired).await?;
    Ok(expired.len())
}

/// Applies one batch of an activity's changes that Redis has not confirmed, and restores orders that it has lost. A
/// change is confirmed if Redis has had it for seconds by its own clock; any other is looked at once more. Returns how
/// many orders were looked at, and how many Redis had not had.
///
/// # Errors
/// [`StoreError`]; the next sweep continues.
pub async fn sync<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
) -> Result<(usize, usize), StoreError> {
    let before = now.plus(-SYNC_AFTER_MS);
    let transitions = unsynced::load(sql, activity, before, ORDER_BATCH_SIZE).await?;
    let outcomes = apply_transitions(redis, activity, &transitions).await?;
    let (mut confirmed, mut repeated, mut lost, mut synced) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (transition, outcome) in transitions.iter().zip(outcomes) {
        match outcome {
            SyncOutcome::AlreadyApplied | SyncOutcome::Stale => confirmed.push(transition),
            SyncOutcome::NoRecord => lost.push(transition),
            SyncOutcome::Applied => {
                synced += 1;
                repeated.push(transition);
            }
            // While a rebuild is at work, or after the epoch has changed, the row is read again.
            SyncOutcome::Recent | SyncOutcome::Fenced => repeated.push(transition),
        }
    }
    for batch in lost.chunks(sync::BATCH_SIZE) {
        let (restored, expired) = restore_lost(redis, sql, activity, batch, now).await?;
        synced += restored;
        confirmed.extend(batch.iter().filter(|lost| expired.contains(&lost.order_no)));
    }
    unsynced::set_since(sql, &confirmed, before, Millis(0)).await?;
    unsynced::set_since(sql, &repeated, before, now).await?;
    Ok((transitions.len(), synced))
}

/// Restores orders that Redis has lost. Returns how many, and those whose records have expired, which are not restored:
/// Redis still counts their units, or has dropped the whole activity. The record of an order that holds units expires a
/// week after the activity's end, or after a late payment, at the earliest.
async fn restore_lost<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    missing: &[&Transition],
    now: Millis,
) -> Result<(usize, HashSet<OrderNo>), StoreError> {
    let order_numbers: Vec<_> = missing.iter().map(|transition| &transition.order_no).collect();
    let rows = order_rows::load_many(sql, &order_numbers).await?;
    let oldest = now.plus(-RETENTION_AFTER_END_MS);
    let is_lost = |row: &OrderRow| row.order.created_at.max(row.order.paid_at.unwrap_or_default()) > oldest;
    let (lost, expired): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_lost);
    let expired = expired.into_iter().map(|row| row.order.order_no).collect();
    let Some(first) = lost.first() else { return Ok((0, expired)) };
    let reply = restore(redis, activity, first.epoch, Source::Lost, &lost).await?;
    // Whatever changed these orders since they were loaded, the next sweep compares them again.
    let order_numbers: Vec<_> = lost.iter().map(|row| &row.order.order_no).collect();
    unsynced::mark(sql, &order_numbers, now).await?;
    Ok((reply.restored as usize, expired))
}

/// Counts what is left at `now`. An activity whose stream Redis cannot read is recorded in the report, and its messages
/// are not counted.
pub async fn count_remaining<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activities: &[ActivityId],
    now: Millis,
    report: &mut Report,
) -> Result<Remaining, StoreError> {
    let mut queued = 0;
    let lengths = activities.iter().map(|activity| stream::length(redis, activity));
    for (activity, length) in activities.iter().zip(join_all(lengths).await) {
        match length {
            Ok(length) => queued += length,
            Err(error) => report.add_failure(activity, &error),
        }
    }
    Ok(Remaining { queued, ..backlog::count_remaining(sql, now, now.plus(-SYNC_AFTER_MS)).await? })
}

/// Writes one batch of reclaimed and one of new messages of an activity's stream; if that was full, drains the stream as
/// an order writer does. Returns whether there may be more.
///
/// # Errors
/// [`StoreError`]; the messages that were read are redelivered.
pub async fn drain<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    report: &mut Report,
) -> Result<bool, StoreError> {
    let started = Instant::now();
    let reclaimed = order_writer::write_reclaimed(redis, sql, activity, now, order_writer::REDELIVER_AFTER_MS).await?;
    let mut new = order_writer::write_new(redis, sql, activity, time_since(now, started)).await?;
    let mut more = reclaimed.messages == order_writer::BATCH_SIZE;
    if new.messages == order_writer::BATCH_SIZE {
        let (now, no_pause) = (time_since(now, started), async || ());
        let (drained, drain_more) =
            order_writer::drain(redis, sql, activity, now, DrainBudget::SWEEP, no_pause).await?;
        new += drained;
        more |= drain_more;
    }
    for (order_no, reason) in reclaimed.dead_letters.iter().chain(&new.dead_letters) {
        report.add_notice("the ledger refused an order", "order_no", order_no, (*reason).to_owned());
    }
    report.redelivered += reclaimed.written;
    report.written += new.written;
    report.newer += reclaimed.newer + new.newer;
    report.unreadable += reclaimed.unreadable + new.unreadable;
    report.failed += reclaimed.failed + new.failed;
    report.unanswered += reclaimed.unanswered + new.unanswered;
    Ok(more)
}
