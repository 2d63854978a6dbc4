//! The order writer (D2, D3, D4): drains the stream of an activity into the ledger, in batches.
//!
//! Messages are delivered at least once, and each order is written exactly once: its number is the ledger's primary
//! key. The message of an order is acknowledged only by the Redis script that applies the outcome, so a crash at any
//! point here, and any error, leaves a message that is redelivered.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use domain::{ids::ActivityId, time::Millis};
use futures::future::join;
use stores::ports::{Redis, Sql, StoreError};

use crate::{
    message_batch::{self, WriteReport},
    stream::{self, Message},
};

/// Messages in one batch.
pub const BATCH_SIZE: usize = 500;

/// Messages in a batch from which on a writer waits for the next orders.
const BUSY_SIZE: usize = 20;

/// How long a message is left to the writer that read it before another writer may reclaim it, in milliseconds.
pub const REDELIVER_AFTER_MS: i64 = 10_000;

/// Deliveries after which a message is written alone, so that it cannot hold up the others (D4).
pub const MAX_DELIVERIES: i64 = 5;

/// Messages whose insert may fail when [`write_reclaimed`] writes them alone; the rest waits for the next call.
const MAX_FAILED_ALONE: usize = 8;

/// How long one call writes messages alone: each may wait for a ledger that does not answer.
const MAX_TIME_ALONE: Duration = Duration::from_secs(5);

/// How much one call of [`drain`] does. It finishes the batches in which the time is up, and writes two at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainBudget {
    /// Maximum number of batches.
    pub batches: usize,
    /// How long it begins new batches.
    pub time: Duration,
}

impl DrainBudget {
    /// For a doorbell message, so that one activity does not hold up the others.
    pub const DOORBELL: Self = Self { batches: 10, time: Duration::from_secs(2) };

    /// For a part of an activity's turn in a sweep, which expires and syncs orders between two such parts.
    pub const SWEEP: Self = Self { batches: 10, time: Duration::from_millis(250) };
}

/// Writes one batch: reads up to [`BATCH_SIZE`] new messages, inserts their orders, and syncs Redis.
pub async fn write_new<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
) -> Result<WriteReport, StoreError> {
    let messages = stream::read_new(redis, activity, BATCH_SIZE).await?;
    message_batch::write(redis, sql, activity, &messages, now).await
}

/// Writes one batch of messages that some writer read at least `idle_ms` ago and never acknowledged.
///
/// Messages that were delivered more than [`MAX_DELIVERIES`] times are a batch of their own. If that fails, each of them
/// is written alone, starting at another one each time, so that one whose insert always fails cannot hold up the
/// others. Those that fail alone are counted as `unanswered`.
pub async fn write_reclaimed<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    idle_ms: i64,
) -> Result<WriteReport, StoreError> {
    let started = Instant::now();
    let messages = stream::reclaim(redis, activity, BATCH_SIZE, idle_ms).await?;
    if messages.is_empty() {
        return Ok(WriteReport::default());
    }
    let exhausted = stream::delivered_more_than(redis, activity, &messages, MAX_DELIVERIES).await?;
    let (mut exhausted, retryable): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| exhausted.contains(&message.stream_id));
    let retried = message_batch::write(redis, sql, activity, &retryable, time_since(now, started)).await;
    sql.forget_timeouts();
    let mut report = match message_batch::write(redis, sql, activity, &exhausted, time_since(now, started)).await {
        Ok(report) => report,
        Err(_) => {
            let first = usize::try_from(now.0).unwrap_or_default() % exhausted.len();
            exhausted.rotate_left(first);
            write_each_alone(redis, sql, activity, &exhausted, time_since(now, started)).await
        }
    };
    report += retried?;
    Ok(report)
}

async fn write_each_alone<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    messages: &[Message],
    now: Millis,
) -> WriteReport {
    let (mut report, mut failed_alone) = (WriteReport::default(), 0);
    let started = Instant::now();
    for (index, message) in messages.iter().enumerate() {
        sql.forget_timeouts();
        let now = time_since(now, started);
        match message_batch::write(redis, sql, activity, std::slice::from_ref(message), now).await {
            Ok(written) => report += written,
            Err(_) => failed_alone += 1,
        }
        if failed_alone == MAX_FAILED_ALONE || started.elapsed() > MAX_TIME_ALONE {
            failed_alone += messages.len() - index - 1;
            break;
        }
    }
    report += WriteReport { messages: failed_alone, unanswered: failed_alone, ..WriteReport::default() };
    report
}

/// Drains a stream until it is empty or `budget` is used up, so that other activities get their turn. Two batches are in
/// flight at a time: while the ledger writes one, Redis syncs the other. Records how many orders are written per
/// second. Returns what was done, and whether there are more messages.
///
/// A batch of [`BUSY_SIZE`] messages or more that is not full suggests that the next orders are about to come: `pause`
/// may wait a moment for them, since an order of a large batch takes less work than one of a small batch.
pub async fn drain<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    budget: DrainBudget,
    pause: impl AsyncFn(),
) -> Result<(WriteReport, bool), StoreError> {
    let started = Instant::now();
    let (is_pausing, working) = (Cell::new(false), WorkingTime::default());
    let write_half = async || {
        let mut report = WriteReport::default();
        for _ in 0..budget.batches / 2 {
            if report.messages > 0 && started.elapsed() >= budget.time {
                break;
            }
            working.begin(started.elapsed());
            let batch = write_new(redis, sql, activity, time_since(now, started)).await;
            working.end(started.elapsed());
            let batch = batch?;
            let messages = batch.messages;
            report += batch;
            if messages == 0 {
                break;
            }
            if (BUSY_SIZE..BATCH_SIZE).contains(&messages) {
                if is_pausing.replace(true) {
                    // The other half waits already, and reads what comes.
                    break;
                }
                pause().await;
                is_pausing.set(false);
            }
        }
        Ok(report)
    };
    // `join` waits for both: an error of one does not drop the other half-way.
    let (first, second) = join(write_half(), write_half()).await;
    let mut report: WriteReport = first?;
    report += second?;
    // Report a rate only if enough was written to measure one.
    let seconds = working.total.get().as_secs_f64();
    let rate = (report.written >= BATCH_SIZE).then(|| (report.written as f64 / seconds) as i64);
    Ok((report, !stream::try_mark_idle(redis, activity, rate).await?))
}

/// The time in which at least one of several tasks works.
#[derive(Default)]
struct WorkingTime {
    tasks: Cell<u32>,
    since: Cell<Duration>,
    total: Cell<Duration>,
}

impl WorkingTime {
    fn begin(&self, now: Duration) {
        if self.tasks.replace(self.tasks.get() + 1) == 0 {
            self.since.set(now);
        }
    }

    fn end(&self, now: Duration) {
        if self.tasks.replace(self.tasks.get() - 1) == 1 {
            self.total.set(self.total.get() + (now - self.since.get()));
        }
    }
}

/// The time now, if it was `then` at `started`: the time to pay of an order starts when it is written.
pub fn time_since(then: Millis, started: Instant) -> Millis {
    then.plus(i64::try_from(started.elapsed().as_millis()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_one_half_pauses_and_the_other_writes_counts_as_work() {
        let (working, ms) = (WorkingTime::default(), Duration::from_millis);
        working.begin(ms(0));
        working.begin(ms(0));
        working.end(ms(10));
        working.begin(ms(80));
        working.end(ms(90));
        working.end(ms(200));
        working.begin(ms(270));
        working.end(ms(280));
        assert_eq!(working.total.get(), ms(210));
    }
}
