//! Writes a batch of messages from the stream of an activity into the ledger, and their outcomes into Redis (D2, D4).
//!
//! An order fails only if the ledger refuses that very order. After any other error its message stays in the stream
//! (D8).

use std::{collections::HashMap, ops::AddAssign};

use domain::{ids::ActivityId, order::OrderStatus, time::Millis};
use sale::{
    ledger::{activities, epochs},
    reserve::Position,
};
use stores::{
    keys::{Keys, WRITER_GROUP},
    ports::{Dialect, Redis, RedisArg, Sql, StoreError},
};

use crate::{
    dead_letters,
    ledger::{line_entries, order_changes, order_rows},
    line,
    order_record::{NewOrder, OrderState, Transition},
    stream::{self, Content, Message},
    sync::{SyncOutcome, apply_transitions},
};

/// Reason of a dead letter: the ledger has no units of the SKU left.
pub const NO_ROOM: &str = "no_room_in_ledger";

/// Reason of a dead letter: the buyer holds too many units.
const LIMIT_REACHED: &str = "limit_reached_in_ledger";

/// Reason of a dead letter: the ledger cannot store a value of the order.
const UNDELIVERABLE: &str = "undeliverable";

/// What writing one batch did, or several if added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Messages read from the stream.
    pub messages: usize,
    /// Orders that were queued and are in the ledger now.
    pub written: usize,
    /// Orders that the ledger refused: they failed, are dead letters, and hold no units.
    pub failed: usize,
    /// Orders about which the ledger gave no answer: their messages stay in the stream.
    pub unanswered: usize,
    /// Messages of a later version of the app, which stay for its writers.
    pub newer: usize,
    /// Messages that hold no order: they are dead letters.
    pub unreadable: usize,
    /// Batches that were written.
    pub batches: usize,
    /// The order numbers of the dead letters, and their reasons, for the log.
    pub dead_letters: Vec<(String, &'static str)>,
}

impl AddAssign for WriteReport {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.written += other.written;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
        self.newer += other.newer;
        self.unreadable += other.unreadable;
        self.batches += other.batches;
        self.dead_letters.extend(other.dead_letters);
    }
}

/// Writes messages that were read from the stream. After an error they are redelivered.
pub(super) async fn write<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    messages: &[Message],
    now: Millis,
) -> Result<WriteReport, StoreError> {
    let count = |content| messages.iter().filter(|message| message.content == content).count();
    let (newer, unreadable) = (count(Content::Newer), count(Content::Unreadable));
    let batches = usize::from(!messages.is_empty());
    let mut report = WriteReport { messages: messages.len(), newer, unreadable, batches, ..WriteReport::default() };
    dead_letter_unreadable(redis, sql, activity, messages, now).await?;
    let (readable, orders): (Vec<_>, Vec<_>) =
        messages.iter().filter_map(|message| Some((message, message.content.order()?))).unzip();
    write_entries(redis, sql, activity, (messages, &orders), now, &mut report).await?;
    if orders.is_empty() {
        return Ok(report);
    }
    let (mut answers, insert_error) = match insert(sql, activity, &orders, now).await {
        Ok(answers) => (answers, None),
        // The ledger may have an order although its insert, alone, never gets an answer.
        Err(error) if orders.len() == 1 => (vec![InsertAnswer::Accepted], Some(error)),
        Err(error) => return Err(error),
    };

    if answers.contains(&InsertAnswer::PlaceTaken) {
        answers = insert_unplaced(redis, sql, activity, &orders, now).await?;
    }

    // An order that the ledger has was inserted now or earlier; either way its state is applied in Redis. An order that
    // the ledger does not have was refused, or was accepted in an older epoch, by Redis data that was replaced since.
    let order_numbers: Vec<_> = orders.iter().map(|order| &order.order_no).collect();
    let states = order_rows::load_states(sql, activity, &order_numbers).await?;
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

    let mut sold_again = Position::default();
    let (mut transitions, mut letters, mut outdated) = (Vec::with_capacity(orders.len()), Vec::new(), Vec::new());
    let (mut withdrawn, mut ended) = (Vec::new(), Vec::new());
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
        let fits = remaining.get(&order.sku).is_some_and(|units| order.quantity <= *units);
        let reason = if from_old_epoch {
            stream::OLD_EPOCH
        } else if answer == InsertAnswer::CannotStore {
            UNDELIVERABLE
        } else if fits {
            LIMIT_REACHED
        } else {
            sold_again = sold_again.max(order.position());
            NO_ROOM
        };
        if order.offer.is_some() && reason == NO_ROOM {
            withdrawn.push((message, order));
            continue;
        }
        // Its buyer waits in the line that was restored, at the same place.
        if order.offer.is_some() && from_old_epoch {
            outdated.push((message, order));
            continue;
        }
        report.failed += 1;
        ended.extend(order.entry(reason));
        letters.push((order.order_no.to_string(), message.text.clone(), reason));
        if from_old_epoch {
            outdated.push((message, order));
        } else {
            transitions.push(failed_transition(order, reason, &message.stream_id));
        }
    }
    if sold_again != Position::default() {
        // Redis sold units that the ledger has sold before: it has lost orders (G16).
        stream::stop(redis, activity, sold_again).await?;
    }
    for (message, order) in withdrawn {
        line::withdraw(redis, order, &message.stream_id).await?;
    }
    if !ended.is_empty() {
        line_entries::write(sql, activity, &ended.iter().collect::<Vec<_>>(), now).await?;
    }
    // I4: operators see a failed order before its buyer does.
    dead_letters::record(sql, &letters, now).await?;
    report.dead_letters = letters.into_iter().map(|(order_no, _, reason)| (order_no, reason)).collect();
    let synced = apply_transitions(redis, activity, &transitions).await?;
    report.written = transitions
        .iter()
        .zip(synced)
        .filter(|(transition, synced)| {
            *synced == SyncOutcome::Applied && transition.state.status != OrderStatus::Failed
        })
        .count();
    if !outdated.is_empty() {
        stream::fence(redis, activity, Position { epoch, sequence: 0 }, &outdated).await?;
    }
    Ok(report)
}

/// Writes what a batch says of entries of the line, and acknowledges what the ledger has. The entry of an offered order is
/// written, too: its own message may be later, or lost.
async fn write_entries<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    (messages, orders): (&[Message], &[&NewOrder]),
    now: Millis,
    report: &mut WriteReport,
) -> Result<(), StoreError> {
    let of_orders: Vec<_> = orders.iter().filter_map(|order| order.entry("")).collect();
    let entries: Vec<_> = messages.iter().filter_map(|message| Some((message, message.content.entry()?))).collect();
    let all: Vec<_> = entries.iter().map(|(_, entry)| *entry).chain(&of_orders).collect();
    if all.is_empty() {
        return Ok(());
    }
    if !line_entries::write(sql, activity, &all, now).await? {
        // A ledger that does not know the activity proves nothing (D8).
        report.unanswered += entries.len();
        return Ok(());
    }
    report.written += entries.len();
    line::acknowledge(redis, activity, &entries).await
}

/// What the ledger answered to the insert of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertAnswer {
    /// The statement ran. The order is new, was there before, or was left out.
    Accepted,
    /// A constraint rejected the order alone.
    Refused,
    /// Another order has its epoch and sequence: Redis has lost that one (G16).
    PlaceTaken,
    /// A value of the order alone cannot be stored.
    CannotStore,
}

impl InsertAnswer {
    /// Whether an order of the ledger's epoch that the ledger does not have was refused. SQLite leaves out an order that
    /// does not fit; PostgreSQL returns an error for it.
    pub fn is_refusal(self, dialect: Dialect) -> bool {
        self != Self::Accepted || dialect == Dialect::Sqlite
    }
}

/// Inserts a batch. If the ledger refuses it as a whole, inserts the orders one at a time, so that one cannot hold up
/// the others. Returns the answer for each order.
pub async fn insert<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    orders: &[&NewOrder],
    now: Millis,
) -> Result<Vec<InsertAnswer>, StoreError> {
    let insert = async |orders: &[&NewOrder]| match order_changes::insert(sql, activity, orders, now).await {
        Ok(()) => Ok(InsertAnswer::Accepted),
        Err(StoreError::LedgerRefused(text)) if order_changes::is_place_taken(&text) => Ok(InsertAnswer::PlaceTaken),
        Err(StoreError::LedgerRefused(_)) => Ok(InsertAnswer::Refused),
        Err(StoreError::LedgerDataException(_)) => Ok(InsertAnswer::CannotStore),
        Err(error) => Err(error),
    };
    let mut answer = insert(orders).await?;
    if answer == InsertAnswer::PlaceTaken {
        // Another writer may have inserted the same orders in the meantime.
        answer = insert(orders).await?;
    }
    if matches!(answer, InsertAnswer::Accepted | InsertAnswer::PlaceTaken) || orders.len() == 1 {
        return Ok(vec![answer; orders.len()]);
    }
    let mut answers = Vec::with_capacity(orders.len());
    for order in orders {
        answers.push(insert(&[order]).await?);
    }
    Ok(answers)
}

/// Inserts orders of which one has the place of another order: Redis has lost that one (G16).
async fn insert_unplaced<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    orders: &[&NewOrder],
    now: Millis,
) -> Result<Vec<InsertAnswer>, StoreError> {
    // First the gate: once the orders are in the ledger, nothing shows the loss any more.
    let last = orders.iter().map(|order| order.position()).max().unwrap_or_default();
    stream::stop(redis, activity, last).await?;
    let unplaced: Vec<_> = orders.iter().map(|order| NewOrder { sequence: 0, ..(*order).clone() }).collect();
    insert(sql, activity, &unplaced.iter().collect::<Vec<_>>(), now).await
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
        if message.content != Content::Unreadable {
            continue;
        }
        let letter = (format!("{activity}.{}", message.stream_id), message.text.clone(), "unreadable");
        dead_letters::record(sql, &[letter], now).await?;
        let stream = Keys::of(activity).named("orders");
        // In this order: XAUTOCLAIM drops a pending message that has left the stream, but no writer reads a message again
        // that is acknowledged and still there.
        let id = &message.stream_id;
        redis.command("XDEL", [&*stream, &**id].map(RedisArg::from).into()).await?;
        redis.command("XACK", [&*stream, WRITER_GROUP, id].map(RedisArg::from).into()).await?;
    }
    Ok(())
}

/// The transition of an order that failed; `stream_id` is its message.
fn failed_transition(order: &NewOrder, reason: &str, stream_id: &str) -> Transition {
    let state = OrderState::failed(order.epoch, reason);
    Transition { order_no: order.order_no.clone(), state, stream_id: stream_id.to_owned() }
}
