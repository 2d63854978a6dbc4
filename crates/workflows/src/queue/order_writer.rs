//! The order writer (D2–D4): drains the stream of an activity into the ledger, in batches.
//!
//! Messages are delivered at least once, and each order is written exactly once: its number is the ledger's primary
//! key. The message of an order is acknowledged only by the Redis script that applies the outcome, so a crash at any
//! point here leaves a message that is redelivered.

use std::{collections::HashMap, ops::AddAssign, time::Instant};

use domain::{ids::ActivityId, order::OrderStatus, time::Millis};
use futures::future::join;

use crate::{
    WRITER_GROUP,
    keys::Keys,
    ledger::{
        activities, epochs,
        orders::{self, NewOrder},
    },
    ports::{Redis, Sql, StoreError},
    queue::{
        dead_letters,
        stream::{self, Message},
    },
    settle::{OrderState, SettleOutcome, Transition, apply_transitions},
};

/// Messages in one batch.
pub const BATCH_SIZE: usize = 500;

/// How long a message is left to the writer that read it before another writer may reclaim it, in milliseconds.
pub const REDELIVER_AFTER_MS: i64 = 10_000;

/// Deliveries after which a message is written alone, in a batch of one, and becomes a dead letter if that fails (D4).
pub const MAX_DELIVERIES: i64 = 5;

/// Reason of a dead letter: the ledger has no units of the SKU left. `lua/settle.lua` compares this word.
pub(crate) const NO_ROOM: &str = "no_room_in_ledger";

/// Reason of a dead letter: the buyer holds too many units.
const LIMIT_REACHED: &str = "limit_reached_in_ledger";

/// Reason of a dead letter: the message was delivered too often, and could not be written alone either.
const UNDELIVERABLE: &str = "undeliverable";

/// What writing one batch did, or several if added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Messages read from the stream.
    pub messages: usize,
    /// Orders that were queued and are in the ledger now.
    pub written: usize,
    /// Orders that could not be written: they failed, are dead letters, and hold no units.
    pub failed: usize,
}

impl AddAssign for WriteReport {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.written += other.written;
        self.failed += other.failed;
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

/// Writes one batch of messages that some writer read at least `idle_ms` ago and never acknowledged. A message that was
/// delivered more than [`MAX_DELIVERIES`] times is written alone, so that it cannot hold up the others, and becomes
/// a dead letter if that fails (D4).
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
    let (exhausted, retryable): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| exhausted.contains(&message.stream_id));
    let mut report = write_messages(redis, sql, activity, &retryable, now).await?;
    for message in &exhausted {
        report += match write_messages(redis, sql, activity, std::slice::from_ref(message), now).await {
            Err(error @ (StoreError::LedgerUnavailable(_) | StoreError::Malformed(_))) => {
                dead_letter_exhausted(redis, sql, activity, message, now).await.map_err(|_| error)?
            }
            other => other?,
        };
    }
    Ok(report)
}

/// Drains a stream for up to `batches` batches, so that other activities get their turn. Two batches are in flight at a
/// time: while the ledger writes one, Redis settles the other. Returns what was done, and whether there may be more
/// messages.
///
/// # Errors
/// [`StoreError`]; the messages that were read are redelivered.
pub async fn drain<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    batches: usize,
) -> Result<(WriteReport, bool), StoreError> {
    let started = Instant::now();
    let write_half = async || {
        let mut report = WriteReport::default();
        for _ in 0..batches / 2 {
            let elapsed = i64::try_from(started.elapsed().as_millis()).unwrap_or_default();
            let batch = write_new(redis, sql, activity, now.plus(elapsed)).await?;
            report += batch;
            if batch.messages == 0 {
                return Ok((report, false));
            }
        }
        Ok((report, true))
    };
    // `join` waits for both: an error of one does not drop the other half-way.
    let (first, second) = join(write_half(), write_half()).await;
    let ((mut report, first_may_have_more), (second_report, second_may_have_more)) = (first?, second?);
    report += second_report;
    if first_may_have_more && second_may_have_more {
        return Ok((report, true));
    }
    // Report a rate only if enough was written to measure one.
    let rate = (report.written >= BATCH_SIZE).then(|| (report.written as f64 / started.elapsed().as_secs_f64()) as i64);
    Ok((report, !stream::try_mark_idle(redis, activity, rate).await?))
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
    insert(sql, activity, &orders, now).await?;

    // An order that the ledger has was inserted now or earlier; either way its state is applied in Redis. An order that
    // the ledger does not have did not fit, or was accepted in an older epoch, by Redis data that was replaced since.
    let states = orders::load_states(sql, activity, &orders).await?;
    let any_missing = states.iter().any(Option::is_none);
    let epoch = if any_missing { epochs::load(sql, activity).await? } else { 0 };
    if any_missing && epoch == 0 {
        // A ledger without an epoch for this activity does not know the activity and proves nothing about its orders
        // (D8): leave the messages in the stream until the right ledger is back.
        return Ok(report);
    }
    let remaining = if any_missing { activities::remaining_units(sql, activity).await? } else { HashMap::new() };

    let (mut transitions, mut letters, mut outdated) = (Vec::with_capacity(orders.len()), Vec::new(), Vec::new());
    for ((message, order), state) in readable.into_iter().zip(orders).zip(states) {
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
        report.failed += 1;
        let from_old_epoch = order.epoch < epoch;
        let fits = remaining.get(&order.sku).is_some_and(|units| order.quantity <= *units);
        let reason = if from_old_epoch {
            stream::OLD_EPOCH
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
        stream::fence(redis, activity, epoch, &outdated).await?;
    }
    Ok(report)
}

/// Moves a message that could not be written alone to the dead letters. Its order becomes `failed`; an operator can
/// requeue it. If the dead letter cannot be recorded either, the message stays in the stream.
async fn dead_letter_exhausted<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    message: &Message,
    now: Millis,
) -> Result<WriteReport, StoreError> {
    let Ok(order) = &message.order else { return Ok(WriteReport::default()) };
    // D8: the row may exist although the insert was never answered. Then the order has not failed.
    if let Some(row) = orders::load(sql, &order.order_no).await? {
        apply_transitions(redis, activity, &[row.to_transition(message.stream_id.clone())]).await?;
        return Ok(WriteReport { messages: 1, ..WriteReport::default() });
    }
    dead_letters::record(sql, &[(order.order_no.to_string(), stream::encode_order(order), UNDELIVERABLE)], now).await?;
    apply_transitions(redis, activity, &[failed_transition(order, UNDELIVERABLE, &message.stream_id)]).await?;
    Ok(WriteReport { messages: 1, failed: 1, ..WriteReport::default() })
}

/// Inserts a batch. If the ledger refuses it as a whole, inserts the orders one at a time, so that one cannot hold up
/// the others.
pub(crate) async fn insert<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    orders: &[&NewOrder],
    now: Millis,
) -> Result<(), StoreError> {
    match orders::insert(sql, activity, orders, now).await {
        Err(StoreError::LedgerRefused(_)) => {}
        other => return other,
    }
    for order in orders {
        match orders::insert(sql, activity, &[order], now).await {
            Ok(()) | Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
    let state = OrderState {
        epoch: order.epoch,
        status: OrderStatus::Failed,
        live: false,
        pay_by: Millis(0),
        paid_at: Millis(0),
        reason: reason.to_owned(),
    };
    Transition { order_no: order.order_no.clone(), state, stream_id: stream_id.to_owned() }
}
