//! The order writer (D2–D4): drains the stream of an activity into the ledger, in batches.
//!
//! At least once in, exactly once out: the order's number is the ledger's primary key, and a message is acknowledged
//! only together with what Redis does about it. Dying between any two lines here leaves a message to be redelivered.

use stampede_domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    order::Status,
    time::Millis,
};

use crate::{
    WRITERS, dead,
    keys::Keys,
    ledger::orders::{self, NewOrder},
    ports::{Arg, Item, Redis, Sql, StoreError},
    script::REST,
    settle::{Move, settle},
};

/// Messages in one batch.
pub const BATCH: usize = 500;

/// How long a message is left to the writer that took it before another may, in milliseconds.
pub const REDELIVER_AFTER_MS: i64 = 10_000;

/// Why the ledger leaves an order out.
const NO_ROOM: &str = "no_room_in_ledger";

/// All writers share one consumer name: who works on what shows in idle time alone, and no names pile up.
const CONSUMER: &str = "writer";

/// A message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id in the stream.
    pub entry: String,
    /// The order, or the text that could not be read.
    pub order: Result<NewOrder, String>,
}

/// What one step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Messages taken from the stream.
    pub taken: usize,
    /// Orders that wait for payment now.
    pub written: usize,
    /// Orders that the ledger had no room for: they failed, and their units are back.
    pub failed: usize,
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
    let messages = take(redis, activity, BATCH).await?;
    write(redis, sql, activity, &messages, now).await
}

/// One batch of messages that some writer took and never finished.
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
    let messages = reclaim(redis, activity, BATCH, idle_ms).await?;
    write(redis, sql, activity, &messages, now).await
}

/// Whether the writer may rest; `false` where a message came in meanwhile. `rate` is what was measured, if anything.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn rest<R: Redis>(redis: &R, activity: &ActivityId, rate: Option<i64>) -> Result<bool, StoreError> {
    let keys = Keys::of(activity);
    let names = vec![keys.named("orders"), keys.named("awake"), keys.named("queue")];
    let rate = rate.map(|rate| rate.to_string()).unwrap_or_default();
    let mut reply = REST.run(redis, names, vec![WRITERS.into(), rate.into_bytes()]).await?;
    Ok(reply.text()? == "rested")
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
    let readable: Vec<_> = messages.iter().filter_map(|m| Some((&m.entry, m.order.as_ref().ok()?))).collect();
    if readable.is_empty() {
        return Ok(report);
    }
    let new: Vec<_> = readable.iter().map(|(_, order)| (*order).clone()).collect();
    let inserted = insert(sql, activity, &new, now).await?;

    // What was not inserted is there already (a redelivery: Redis hears what became of it) or does not fit.
    let missing: Vec<_> = if inserted.len() == new.len() {
        Vec::new()
    } else {
        let done: std::collections::HashSet<_> = inserted.iter().map(|(no, _)| no).collect();
        new.iter().filter(|order| !done.contains(&order.order_no)).map(|order| order.order_no.clone()).collect()
    };
    let known = if missing.is_empty() { Vec::new() } else { orders::load_many(sql, &missing).await? };
    let known: std::collections::HashMap<_, _> =
        known.into_iter().map(|entry| (entry.order.order_no.clone(), entry)).collect();
    let pay_by: std::collections::HashMap<_, _> = inserted.into_iter().collect();

    // I4: what fails is seen by an operator before anybody is told.
    let dead: Vec<_> = missing.iter().filter(|no| !known.contains_key(no)).collect();
    let letters: Vec<_> = new
        .iter()
        .filter(|order| dead.contains(&&order.order_no))
        .map(|order| (order.order_no.to_string(), to_message(order), NO_ROOM))
        .collect();
    dead::bury(sql, &letters, now).await?;

    let moves: Vec<_> = readable
        .iter()
        .map(|(entry, order)| {
            let entry = (*entry).clone();
            if let Some(pay_by) = pay_by.get(&order.order_no) {
                report.written += 1;
                outcome(&order.order_no, Status::PendingPayment, *pay_by, "", entry)
            } else if let Some(known) = known.get(&order.order_no) {
                known.to_move(entry)
            } else {
                report.failed += 1;
                outcome(&order.order_no, Status::Failed, Millis(0), NO_ROOM, entry)
            }
        })
        .collect();
    settle(redis, activity, &moves).await?;
    Ok(report)
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

fn outcome(order_no: &OrderNo, status: Status, pay_by: Millis, reason: &str, entry: String) -> Move {
    Move {
        order_no: order_no.clone(),
        status,
        live: status == Status::PendingPayment,
        pay_by,
        paid_at: Millis(0),
        reason: reason.to_owned(),
        entry,
    }
}

/// Takes new messages from the stream.
async fn take<R: Redis>(redis: &R, activity: &ActivityId, count: usize) -> Result<Vec<Message>, StoreError> {
    let stream = Keys::of(activity).named("orders");
    let count = count.to_string();
    let args = ["GROUP", WRITERS, CONSUMER, "COUNT", &count, "STREAMS", &stream, ">"];
    let items = match redis.command("XREADGROUP", args.map(Arg::from).into()).await {
        // No group: Redis was emptied. It is made again, from the first message on.
        Err(StoreError::RedisRefused(text)) if text.contains("NOGROUP") => {
            let args = ["CREATE", stream.as_str(), WRITERS, "0", "MKSTREAM"];
            redis.command("XGROUP", args.map(Arg::from).into()).await?;
            return Ok(Vec::new());
        }
        other => other?,
    };
    // The flat reply begins with the stream's name.
    Ok(parse(activity, items.get(1..).unwrap_or_default()))
}

/// Takes over messages that were delivered at least `idle_ms` ago and never acknowledged.
async fn reclaim<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    count: usize,
    idle_ms: i64,
) -> Result<Vec<Message>, StoreError> {
    let stream = Keys::of(activity).named("orders");
    let (idle, count) = (idle_ms.to_string(), count.to_string());
    let args = [&stream, WRITERS, CONSUMER, &idle, "0", "COUNT", &count];
    match redis.command("XAUTOCLAIM", args.map(Arg::from).into()).await {
        Err(StoreError::RedisRefused(text)) if text.contains("NOGROUP") => Ok(Vec::new()),
        // The flat reply begins with the cursor and ends with ids that are gone: those have no field after them.
        other => Ok(parse(activity, other?.get(1..).unwrap_or_default())),
    }
}

/// Reads `id, "o", text` triples; anything else is skipped.
fn parse(activity: &ActivityId, items: &[Item]) -> Vec<Message> {
    let mut messages = Vec::with_capacity(items.len() / 3);
    let mut at = 0;
    while let [Item::Bytes(entry), Item::Bytes(field), Item::Bytes(text), ..] = &items[at..] {
        if field != b"o" {
            at += 1;
            continue;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        messages.push(Message {
            entry: String::from_utf8_lossy(entry).into_owned(),
            order: new_order(activity, &text).ok_or(text),
        });
        at += 3;
    }
    messages
}

/// An order as the stream carries it.
fn to_message(order: &NewOrder) -> String {
    let NewOrder { order_no, user, sku, quantity, amount, currency, created_at } = order;
    format!("{}\t{user}\t{sku}\t{quantity}\t{amount}\t{currency}\t{}", order_no.ulid(), created_at.0)
}

/// Reads what [`to_message`] and `lua/reserve.lua` write.
pub(crate) fn new_order(activity: &ActivityId, text: &str) -> Option<NewOrder> {
    let [ulid, user, sku, quantity, amount, currency, created_at]: [&str; 7] =
        text.split('\t').collect::<Vec<_>>().try_into().ok()?;
    Some(NewOrder {
        order_no: OrderNo::parse(&format!("{activity}.{ulid}")).ok()?,
        user: UserId::parse(user).ok()?,
        sku: SkuId::parse(sku).ok()?,
        quantity: quantity.parse().ok().filter(|quantity| *quantity > 0)?,
        amount: amount.parse().ok()?,
        currency: currency.to_owned(),
        created_at: Millis(created_at.parse().ok()?),
    })
}
