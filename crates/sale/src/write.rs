//! The order writer (D2–D4): drains the stream of an activity into the ledger, in batches.
//!
//! At least once in, exactly once out: the order's number is the ledger's primary key, and a message is acknowledged
//! only together with what Redis does about it. Dying between any two lines here leaves a message to be redelivered.

use std::{collections::HashMap, ops::AddAssign, time::Instant};

use stampede_domain::{
    ids::{ActivityId, OrderNo},
    order::Status,
    time::Millis,
};

use crate::{
    WRITERS, dead,
    keys::Keys,
    ledger::{
        epochs,
        orders::{self, NewOrder},
    },
    ports::{Redis, Sql, StoreError},
    settle::{Move, settle},
    stream::{self, Message},
};

/// Messages in one batch.
pub const BATCH: usize = 500;

/// How long a message is left to the writer that took it before another may, in milliseconds.
pub const REDELIVER_AFTER_MS: i64 = 10_000;

/// Deliveries after which a message is tried by itself, and dies if it still cannot be written (D4).
pub const MAX_DELIVERIES: i64 = 5;

/// Why the ledger leaves an order out.
const NO_ROOM: &str = "no_room_in_ledger";

/// Redis was rebuilt, or replaced by an older one, since the order was accepted (G5).
pub const OLD_EPOCH: &str = "old_epoch";

/// It was delivered again and again, and could not be written by itself either.
const UNDELIVERABLE: &str = "undeliverable";

/// What one step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Messages taken from the stream.
    pub taken: usize,
    /// Orders that wait for payment now.
    pub written: usize,
    /// Orders that could not be written: they failed, are dead letters, and their units are back.
    pub failed: usize,
}

impl AddAssign for Written {
    fn add_assign(&mut self, other: Self) {
        self.taken += other.taken;
        self.written += other.written;
        self.failed += other.failed;
    }
}

/// One batch: takes up to [`BATCH`] new messages, writes them, tells Redis.
///
/// # Errors
/// [`StoreError`]; what was taken is redelivered.
pub async fn tick<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
) -> Result<Written, StoreError> {
    let messages = stream::take(redis, activity, BATCH).await?;
    write(redis, sql, activity, &messages, now).await
}

/// One batch of messages that some writer took and never finished. Those that were delivered too often are tried one by
/// one, so that one cannot hold up the others, and die where they still cannot be written (D4).
///
/// # Errors
/// [`StoreError`].
pub async fn tick_redelivered<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    idle_ms: i64,
) -> Result<Written, StoreError> {
    let messages = stream::reclaim(redis, activity, BATCH, idle_ms).await?;
    if messages.is_empty() {
        return Ok(Written::default());
    }
    let worn = stream::delivered_more_than(redis, activity, &messages, MAX_DELIVERIES).await?;
    let (worn, fresh): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| worn.contains(&message.entry));
    let mut report = write(redis, sql, activity, &fresh, now).await?;
    for message in &worn {
        report += match write(redis, sql, activity, std::slice::from_ref(message), now).await {
            Err(error @ (StoreError::LedgerUnavailable(_) | StoreError::Unreadable(_))) => {
                give_up(redis, sql, activity, message, now).await.map_err(|_| error)?
            }
            other => other?,
        };
    }
    Ok(report)
}

/// One writer's turn at a sale: up to `batches`, so that other sales have theirs. Answers what it did, and whether there
/// is more.
///
/// # Errors
/// [`StoreError`].
pub async fn turn<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    batches: usize,
) -> Result<(Written, bool), StoreError> {
    let (started, mut report) = (Instant::now(), Written::default());
    for _ in 0..batches {
        let elapsed = started.elapsed();
        let step = tick(redis, sql, activity, now.plus(i64::try_from(elapsed.as_millis()).unwrap_or_default())).await?;
        report += step;
        if step.taken == 0 {
            // A rate is worth noting when enough was written to measure one.
            let rate = (report.written >= BATCH).then(|| (report.written as f64 / elapsed.as_secs_f64()) as i64);
            if stream::rest(redis, activity, rate).await? {
                return Ok((report, false));
            }
        }
    }
    Ok((report, true))
}

async fn write<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    messages: &[Message],
    now: Millis,
) -> Result<Written, StoreError> {
    let mut report = Written { taken: messages.len(), ..Written::default() };
    discard_unreadable(redis, sql, activity, messages, now).await?;
    let readable: Vec<_> = messages.iter().filter_map(|m| Some((m, m.order.as_ref().ok()?))).collect();
    if readable.is_empty() {
        return Ok(report);
    }
    let new: Vec<_> = readable.iter().map(|(_, order)| (*order).clone()).collect();
    let inserted: HashMap<_, _> = insert(sql, activity, &new, now).await?.into_iter().collect();

    // What was not inserted is there already (a redelivery: Redis hears what became of it), does not fit, or comes from
    // an epoch in which Redis was another.
    let missing: Vec<_> = new.iter().map(|order| &order.order_no).filter(|no| !inserted.contains_key(no)).collect();
    let known = if missing.is_empty() { Vec::new() } else { orders::load_many(sql, &missing).await? };
    let known: HashMap<_, _> = known.into_iter().map(|entry| (entry.order.order_no.clone(), entry)).collect();
    let lost = missing.len() > known.len();
    let epoch = if lost { epochs::current(sql, activity).await? } else { 0 };

    let (mut moves, mut letters, mut outdated) = (Vec::new(), Vec::new(), Vec::new());
    for (message, order) in readable {
        if let Some(pay_by) = inserted.get(&order.order_no) {
            report.written += 1;
            moves.push(outcome(order, Status::PendingPayment, *pay_by, "", message));
        } else if let Some(known) = known.get(&order.order_no) {
            moves.push(known.to_move(message.entry.clone()));
        } else {
            report.failed += 1;
            let reason = if order.epoch == epoch { NO_ROOM } else { OLD_EPOCH };
            letters.push((order.order_no.to_string(), stream::to_message(order), reason));
            if order.epoch == epoch {
                moves.push(outcome(order, Status::Failed, Millis(0), NO_ROOM, message));
            } else {
                outdated.push((message, order));
            }
        }
    }
    // I4: what fails is seen by an operator before anybody is told.
    dead::bury(sql, &letters, now).await?;
    settle(redis, activity, &moves).await?;
    if !outdated.is_empty() {
        stream::fence(redis, activity, epoch, &outdated).await?;
    }
    Ok(report)
}

/// A message that cannot be written, and was not, although the ledger takes its dead letter: it fails for good.
async fn give_up<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    message: &Message,
    now: Millis,
) -> Result<Written, StoreError> {
    let Ok(order) = &message.order else { return Ok(Written::default()) };
    // D8: its row may be there although no answer ever came. Then it did not fail.
    if let Some(known) = orders::load(sql, &order.order_no).await? {
        settle(redis, activity, &[known.to_move(message.entry.clone())]).await?;
        return Ok(Written { taken: 1, ..Written::default() });
    }
    dead::bury(sql, &[(order.order_no.to_string(), stream::to_message(order), UNDELIVERABLE)], now).await?;
    settle(redis, activity, &[outcome(order, Status::Failed, Millis(0), UNDELIVERABLE, message)]).await?;
    Ok(Written { taken: 1, failed: 1, ..Written::default() })
}

/// Inserts a batch; where the ledger refuses it as a whole, each order by itself, so that one cannot hold up the others.
async fn insert<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    new: &[NewOrder],
    now: Millis,
) -> Result<Vec<(OrderNo, Millis)>, StoreError> {
    match orders::insert(sql, activity, new, now).await {
        Err(StoreError::LedgerRefused(_)) => {}
        other => return other,
    }
    let mut inserted = Vec::new();
    for order in new {
        match orders::insert(sql, activity, std::slice::from_ref(order), now).await {
            Ok(one) => inserted.extend(one),
            Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(inserted)
}

/// A message that nobody can read holds no order: it is kept for an operator and leaves the stream.
async fn discard_unreadable<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    messages: &[Message],
    now: Millis,
) -> Result<(), StoreError> {
    for message in messages {
        let Err(text) = &message.order else { continue };
        let letter = (format!("{activity}.{}", message.entry), text.clone(), "unreadable");
        dead::bury(sql, &[letter], now).await?;
        let stream = Keys::of(activity).named("orders");
        redis.command("XACK", vec![stream.clone().into(), WRITERS.into(), message.entry.clone().into()]).await?;
        redis.command("XDEL", vec![stream.into(), message.entry.clone().into()]).await?;
    }
    Ok(())
}

fn outcome(order: &NewOrder, status: Status, pay_by: Millis, reason: &str, message: &Message) -> Move {
    Move {
        order_no: order.order_no.clone(),
        epoch: order.epoch,
        status,
        live: status == Status::PendingPayment,
        pay_by,
        paid_at: Millis(0),
        reason: reason.to_owned(),
        entry: message.entry.clone(),
    }
}
