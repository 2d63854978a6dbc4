//! The order stream of a sale (D2): taking messages, taking over what others left, clearing what no epoch wants.

use std::collections::HashSet;

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    time::Millis,
};

use crate::{
    WRITER_GROUP,
    keys::Keys,
    ledger::orders::NewOrder,
    ports::{Redis, RedisArg, RedisValue, StoreError},
    queue::order_writer::OLD_EPOCH,
    reply::Reply,
    script::{FENCE, WRITER_IDLE},
    settle::CLOSED_ORDER_TTL_SECONDS,
};

/// All writers share one consumer name: who works on what shows in idle time alone, and no names pile up.
const CONSUMER: &str = "writer";

/// A message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id in the stream.
    pub stream_id: String,
    /// The order, or the text that could not be read.
    pub order: Result<NewOrder, String>,
}

/// Takes new messages from the stream.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn read_new<R: Redis>(redis: &R, activity: &ActivityId, count: usize) -> Result<Vec<Message>, StoreError> {
    let stream = Keys::of(activity).named("orders");
    let count = count.to_string();
    let args = ["GROUP", WRITER_GROUP, CONSUMER, "COUNT", &count, "STREAMS", &stream, ">"];
    let read = || redis.command("XREADGROUP", args.map(RedisArg::from).into());
    let items = match read().await {
        // The stream was lost and begun anew: its group is made again, from the first message on. Where there is no stream,
        // none is made, which nobody would take away again.
        Err(StoreError::RedisRefused(text)) if text.starts_with("NOGROUP") => {
            if redis.command("EXISTS", vec![stream.as_str().into()]).await? != [RedisValue::Int(1)] {
                return Ok(Vec::new());
            }
            let args = ["CREATE", stream.as_str(), WRITER_GROUP, "0"];
            match redis.command("XGROUP", args.map(RedisArg::from).into()).await {
                // Somebody else has just made it.
                Err(StoreError::RedisRefused(text)) if text.starts_with("BUSYGROUP") => {}
                other => other.map(|_| ())?,
            }
            read().await?
        }
        other => other?,
    };
    // The flat reply begins with the stream's name.
    Ok(parse_messages(activity, items.get(1..).unwrap_or_default()))
}

/// Takes over messages that were delivered at least `idle_ms` ago and never acknowledged.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn reclaim<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    count: usize,
    idle_ms: i64,
) -> Result<Vec<Message>, StoreError> {
    let stream = Keys::of(activity).named("orders");
    let (idle, count) = (idle_ms.to_string(), count.to_string());
    let args = [&stream, WRITER_GROUP, CONSUMER, &idle, "0", "COUNT", &count];
    match redis.command("XAUTOCLAIM", args.map(RedisArg::from).into()).await {
        Err(StoreError::RedisRefused(text)) if text.starts_with("NOGROUP") => Ok(Vec::new()),
        // The flat reply begins with the cursor and ends with ids that are gone: those have no field after them.
        other => Ok(parse_messages(activity, other?.get(1..).unwrap_or_default())),
    }
}

/// Reads `id, "o", text` triples; anything else is skipped.
fn parse_messages(activity: &ActivityId, items: &[RedisValue]) -> Vec<Message> {
    let mut messages = Vec::with_capacity(items.len() / 3);
    let mut index = 0;
    while let [RedisValue::Bytes(stream_id), RedisValue::Bytes(field), RedisValue::Bytes(text), ..] = &items[index..] {
        if field != b"o" {
            index += 1;
            continue;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        messages.push(Message {
            stream_id: String::from_utf8_lossy(stream_id).into_owned(),
            order: decode_order(activity, &text).ok_or(text),
        });
        index += 3;
    }
    messages
}

/// An order as the stream carries it.
pub(crate) fn encode_order(order: &NewOrder) -> String {
    let NewOrder { order_no, user, sku, quantity, money: Money { amount, currency }, created_at, epoch } = order;
    format!("{}\t{user}\t{sku}\t{quantity}\t{amount}\t{currency}\t{}\t{epoch}", order_no.ulid(), created_at.0)
}

/// Reads what [`to_message`] and `lua/reserve.lua` write.
pub(crate) fn decode_order(activity: &ActivityId, text: &str) -> Option<NewOrder> {
    let [ulid, user, sku, quantity, amount, currency, created_at, epoch]: [&str; 8] =
        text.split('\t').collect::<Vec<_>>().try_into().ok()?;
    Some(NewOrder {
        order_no: OrderNo::parse(&format!("{activity}.{ulid}")).ok()?,
        user: UserId::parse(user).ok()?,
        sku: SkuId::parse(sku).ok()?,
        quantity: quantity.parse().ok().filter(|quantity| *quantity > 0)?,
        money: Money::new(amount.parse().ok()?, currency),
        created_at: Millis(created_at.parse().ok()?),
        epoch: epoch.parse().ok()?,
    })
}

/// Which of `messages`, which were just taken over, were delivered more than `times`.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn delivered_more_than<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    messages: &[Message],
    times: i64,
) -> Result<HashSet<String>, StoreError> {
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return Ok(HashSet::new()) };
    let stream = Keys::of(activity).named("orders");
    let count = messages.len().to_string();
    let args = [&stream, WRITER_GROUP, &first.stream_id, &last.stream_id, &count, CONSUMER];
    let mut reply = Reply::new(redis.command("XPENDING", args.map(RedisArg::from).into()).await?);
    let mut exhausted = HashSet::new();
    while reply.remaining() >= 4 {
        let (stream_id, _, _, deliveries) = (reply.text()?, reply.text()?, reply.int()?, reply.int()?);
        if deliveries > times {
            exhausted.insert(stream_id);
        }
    }
    Ok(exhausted)
}

/// How a gate stands to the ledger's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceOutcome {
    /// There is none, or a rebuild has not finished it.
    Missing,
    /// It is of that epoch, and of this version.
    Current(i64),
    /// It was of an older one, and is closed now.
    Closed,
    /// It is of a later one, this: the ledger was restored from a backup.
    Newer(i64),
}

/// Closes the gate where it is of an older epoch than the ledger's, and clears messages of other epochs, which an
/// operator can see by now (`lua/fence.lua`). Answers how it found the gate.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn fence<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    epoch: i64,
    outdated: &[(&Message, &NewOrder)],
) -> Result<FenceOutcome, StoreError> {
    let keys = Keys::of(activity);
    let mut script_keys: Vec<_> = ["gate", "orders", "queue"].map(|name| keys.named(name)).into();
    let mut args: Vec<RedisArg> = vec![
        epoch.to_string().into(),
        WRITER_GROUP.into(),
        CLOSED_ORDER_TTL_SECONDS.to_string().into(),
        OLD_EPOCH.into(),
    ];
    for (message, order) in outdated {
        script_keys.push(keys.order(order.order_no.ulid()));
        args.push(order.epoch.to_string().into());
        args.push(message.stream_id.as_str().into());
    }
    let mut reply = FENCE.run(redis, script_keys, args).await?;
    Ok(match reply.text()?.as_str() {
        "missing" => FenceOutcome::Missing,
        "closed" => FenceOutcome::Closed,
        "later" => FenceOutcome::Newer(reply.int()?),
        _ => {
            reply.int()?;
            FenceOutcome::Current(reply.int()?)
        }
    })
}

/// Whether the writer may rest; `false` where a message came in meanwhile. `rate` is what was measured, if anything.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn try_mark_idle<R: Redis>(redis: &R, activity: &ActivityId, rate: Option<i64>) -> Result<bool, StoreError> {
    let keys = Keys::of(activity);
    let script_keys = vec![keys.named("orders"), keys.named("awake"), keys.named("queue")];
    let rate = rate.map(|rate| rate.to_string()).unwrap_or_default();
    let mut reply = WRITER_IDLE.run(redis, script_keys, vec![WRITER_GROUP.into(), rate.into_bytes()]).await?;
    Ok(reply.text()? == "rested")
}
