//! The order writer (D2, D3, D4): drains the stream of an activity into the ledger, in batches.
//!
//! Messages are delivered at least once, and each order is written exactly once: its number is the ledger's primary
//! key. The message of an order is acknowledged only by the Redis script that applies the outcome, so a crash at any
//! point here leaves a message that is redelivered.
//!
//! An order fails only if the ledger refuses that very order. After any other error its message stays in the stream
//! (D8).

use std::{
    cell::Cell,
    collections::HashMap,
    ops::AddAssign,
    time::{Duration, Instant},
};

use domain::{ids::ActivityId, order::OrderStatus, time::Millis};
use futures::future::join;

use crate::{
    WRITER_GROUP,
    keys::Keys,
    ledger::{
        activities, epochs,
        orders::{self, NewOrder},
    },
    ports::{Dialect, Redis, Sql, StoreError},
    queue::{
        dead_letters,
        stream::{self, Message},
    },
    settle::{OrderState, SettleOutcome, Transition, apply_transitions},
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

/// Reason of a dead letter: the ledger has no units of the SKU left. `lua/settle.lua` compares this word.
pub(crate) const NO_ROOM: &str = "no_room_in_ledger";

/// Reason of a dead letter: the buyer holds too many units.
const LIMIT_REACHED: &str = "limit_reached_in_ledger";

/// Reason of a dead letter: the ledger cannot store a value of the order.
const UNDELIVERABLE: &str = "undeliverable";

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

    /// For a part of an activity's turn in a sweep, which expires and settles orders between two such parts.
    pub const SWEEP: Self = Self { batches: 10, time: Duration::from_millis(250) };
}

/// What writing one batch did, or several if added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Messages read from the stream.
    pub messages: usize,
    /// Orders that were queued and are in the ledger now.
    pub written: usize,
    /// Orders that the ledger refused: they failed, are dead letters, and hold no units.
    pub failed: usize,
    /// Orders about which the ledger gave no answer: their messages stay in the stream.
    pub unanswered: usize,
}

impl AddAssign for WriteReport {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.written += other.written;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
    }
}

/// Writes one batch: reads up to [`BATCH_SIZE`] new messages, inserts their orders, and settles Redis.
///
/// # Errors
/// [`StoreError`]; the messages that were read are redelivered.
pub async fn write_new<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
) -> Result<WriteReport, StoreError> {
    let messages = stream::read_new(redis, activity, BATCH_SIZE).await?;
    write_messages(redis, sql, activity, &messages, now).await
}

/// Writes one batch of messages that some writer read at least `idle_ms` ago and never acknowledged.
///
/// Messages that were delivered more than [`MAX_DELIVERIES`] times are a batch of their own. If that fails, each of them
/// is written alone, starting at another one each time, so that one whose insert always fails cannot hold up the
/// others. Those that fail alone are counted as `unanswered`.
///
/// # Errors
/// [`StoreError`]; the messages that were reclaimed are redelivered.
pub async fn write_reclaimed<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    idle_ms: i64,
) -> Result<WriteReport, StoreError> {
    let messages = stream::reclaim(redis, activity, BATCH_SIZE, idle_ms).await?;
    if messages.is_empty() {
        return Ok(WriteReport::default());
    }
    let exhausted = stream::delivered_more_than(redis, activity, &messages, MAX_DELIVERIES).await?;
    let (mut exhausted, retryable): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| exhausted.contains(&message.stream_id));
    let retried = write_messages(redis, sql, activity, &retryable, now).await;
    sql.forget_timeouts();
    let mut report = match write_messages(redis, sql, activity, &exhausted, now).await {
        Ok(report) => report,
        Err(_) => {
            let first = usize::try_from(now.0).unwrap_or_default() % exhausted.len();
            exhausted.rotate_left(first);
            write_each_alone(redis, sql, activity, &exhausted, now).await
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
        match write_messages(redis, sql, activity, std::slice::from_ref(message), now).await {
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
/// flight at a time: while the ledger writes one, Redis settles the other. Records how many orders are written per
/// second. Returns what was done, and whether there are more messages.
///
/// A batch of [`BUSY_SIZE`] messages or more that is not full suggests that the next orders are about to come: `pause`
/// may wait a moment for them, since an order of a large batch takes less work than one of a small batch.
///
/// # Errors
/// [`StoreError`]; the messages that were read are redelivered.
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
            report += batch;
            if batch.messages == 0 {
                break;
            }
            if (BUSY_SIZE..BATCH_SIZE).contains(&batch.messages) {
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

/// The time now, if it was `then` at `started`. The time to pay starts when an order is written, not when the queue's
/// first batch was.
pub(crate) fn time_since(then: Millis, started: Instant) -> Millis {
    then.plus(i64::try_from(started.elapsed().as_millis()).unwrap_or_default())
}

async fn write_messages<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    messages: &[Message],
    now: Millis,
) -> Result<WriteReport, StoreError> {
    let mut report = WriteReport { messages: messages.len(), ..WriteReport::default() };
    dead_letter_unreadable(redis, sql, activity, messages, now).await?;
    let (readable, orders): (Vec<_>, Vec<_>) =
        messages.iter().filter_map(|message| Some((message, message.order.as_ref().ok()?))).unzip();
    if orders.is_empty() {
        return Ok(report);
    }
    let (answers, insert_error) = match insert(sql, activity, &orders, now).await {
        Ok(answers) => (answers, None),
        // The ledger may have an order although its insert, alone, never gets an answer.
        Err(error) if orders.len() == 1 => (vec![InsertAnswer::Accepted], Some(error)),
        Err(error) => return Err(error),
    };

    // An order that the ledger has was inserted now or earlier; either way its state is applied in Redis. An order that
    // the ledger does not have was refused, or was accepted in an older epoch, by Redis data that was replaced since.
    let order_numbers: Vec<_> = orders.iter().map(|order| &order.order_no).collect();
    let states = orders::load_states(sql, activity, &order_numbers).await?;
    let any_missing = states.iter().any(Option::is_none);
    if let Some(error) = insert_error.filter(|_| any_missing) {
        return Err(error);
    }
    let epoch = if any_missing { epochs::load(sql, activity).await? } else { 0 };
    if any_missing && epoch == 0 {
        // A ledger without an epoch for this activity does not know the activity and proves nothing about its orders
        // (D8): leave the messages in the stream until the right ledger is back.
        return Ok(report);
    }
    let remaining = if any_missing { activities::remaining_units(sql, activity).await? } else { HashMap::new() };

    let (mut transitions, mut letters, mut outdated) = (Vec::with_capacity(orders.len()), Vec::new(), Vec::new());
    for (((message, order), state), answer) in readable.into_iter().zip(orders).zip(states).zip(answers) {
        if let Some(mut state) = state {
            // A ledger that was restored from a backup has an older epoch than the gate that counts the order.
            state.epoch = state.epoch.max(order.epoch);
            transitions.push(Transition {
                order_no: order.order_no.clone(),
                state,
                stream_id: message.stream_id.clone(),
            });
            continue;
        }
        let from_old_epoch = order.epoch < epoch;
        if !from_old_epoch && !answer.is_refusal(sql.dialect()) {
            // The ledger lost the row after it accepted it, for example by a failover: write the message again.
            report.unanswered += 1;
            continue;
        }
        report.failed += 1;
        let fits = remaining.get(&order.sku).is_some_and(|units| order.quantity <= *units);
        let reason = if from_old_epoch {
            stream::OLD_EPOCH
        } else if answer == InsertAnswer::CannotStore {
            UNDELIVERABLE
        } else if fits {
            LIMIT_REACHED
        } else {
            NO_ROOM
        };
        letters.push((order.order_no.to_string(), stream::encode_order(order), reason));
        if from_old_epoch {
            outdated.push((message, order));
        } else {
            transitions.push(failed_transition(order, reason, &message.stream_id));
        }
    }
    // I4: operators see a failed order before its buyer does.
    dead_letters::record(sql, &letters, now).await?;
    let settled = apply_transitions(redis, activity, &transitions).await?;
    report.written = transitions
        .iter()
        .zip(settled)
        .filter(|(transition, settled)| {
            *settled == SettleOutcome::Applied && transition.state.status != OrderStatus::Failed
        })
        .count();
    if !outdated.is_empty() {
        stream::fence(redis, activity, epoch, &[], &outdated).await?;
    }
    Ok(report)
}

/// What the ledger answered to the insert of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertAnswer {
    /// The statement ran. The order is new, was there before, or was left out.
    Accepted,
    /// A constraint rejected the order alone.
    Refused,
    /// A value of the order alone cannot be stored.
    CannotStore,
}

impl InsertAnswer {
    /// Whether an order of the ledger's epoch that the ledger does not have was refused. SQLite leaves out an order that
    /// does not fit; PostgreSQL returns an error for it.
    pub(crate) fn is_refusal(self, dialect: Dialect) -> bool {
        self != Self::Accepted || dialect == Dialect::Sqlite
    }
}

/// Inserts a batch. If the ledger refuses it as a whole, inserts the orders one at a time, so that one cannot hold up
/// the others. Returns the answer for each order.
pub(crate) async fn insert<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    orders: &[&NewOrder],
    now: Millis,
) -> Result<Vec<InsertAnswer>, StoreError> {
    let insert = async |orders: &[&NewOrder]| match orders::insert(sql, activity, orders, now).await {
        Ok(()) => Ok(InsertAnswer::Accepted),
        Err(StoreError::LedgerRefused(_)) => Ok(InsertAnswer::Refused),
        Err(StoreError::LedgerDataException(_)) => Ok(InsertAnswer::CannotStore),
        Err(error) => Err(error),
    };
    let answer = insert(orders).await?;
    if answer == InsertAnswer::Accepted || orders.len() == 1 {
        return Ok(vec![answer; orders.len()]);
    }
    let mut answers = Vec::with_capacity(orders.len());
    for order in orders {
        answers.push(insert(&[order]).await?);
    }
    Ok(answers)
}

/// Moves messages that cannot be parsed to the dead letters, and deletes them from the stream: they hold no order.
async fn dead_letter_unreadable<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    messages: &[Message],
    now: Millis,
) -> Result<(), StoreError> {
    for message in messages {
        let Err(text) = &message.order else { continue };
        let letter = (format!("{activity}.{}", message.stream_id), text.clone(), "unreadable");
        dead_letters::record(sql, &[letter], now).await?;
        let stream = Keys::of(activity).named("orders");
        redis
            .command("XACK", vec![stream.clone().into(), WRITER_GROUP.into(), message.stream_id.clone().into()])
            .await?;
        redis.command("XDEL", vec![stream.into(), message.stream_id.clone().into()]).await?;
    }
    Ok(())
}

/// The transition of an order that failed; `stream_id` is its message.
fn failed_transition(order: &NewOrder, reason: &str, stream_id: &str) -> Transition {
    let state = OrderState::failed(order.epoch, reason);
    Transition { order_no: order.order_no.clone(), state, stream_id: stream_id.to_owned() }
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
