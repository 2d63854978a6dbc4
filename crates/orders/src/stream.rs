//! The order stream of an activity (D2): reads messages, reclaims unacknowledged ones, and removes those of other
//! epochs.
//!
//! Errors: `RedisUnavailable` if Redis did not answer, `RedisRefused` if it rejected the command.

use std::collections::HashSet;

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    time::Millis,
};
use sale::reserve::Position;
use serde_json::json;
use stores::{
    keys::{Keys, WRITER_GROUP, WRITERS},
    ports::{Redis, RedisArg, StoreError},
    reply::{Reply, unexpected},
};

use crate::{
    ledger::line_entries::Entry,
    order_record::{NewOrder, Offer},
    scripts::{FENCE, READ_MESSAGES, START_WRITING, STOP, WRITER_IDLE},
    sync::CLOSED_ORDER_TTL_SECONDS,
};

/// Reason of a dead letter: Redis was rebuilt, or replaced by an older copy, after the order was accepted (G5).
pub const OLD_EPOCH: &str = "old_epoch";

/// All writers share one consumer name. Abandoned messages are recognised by their idle time alone, and no unused
/// consumer names pile up.
const CONSUMER: &str = "writer";

/// The version of the messages of orders.
const VERSION: i64 = 1;

/// The version of messages about the line: with a kind and the entry's place (`crates/stores/lua/line.lua`). The highest that
/// this app reads.
const LINE_VERSION: i64 = 2;

/// A message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id in the stream.
    pub stream_id: String,
    /// Its text.
    pub text: String,
    /// What the text says.
    pub content: Content,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// An order to write.
    Order(NewOrder),
    /// An entry of the line that waits, or has ended.
    Entry(Entry),
    /// Something that a later version of the app has written, which only that can read.
    Newer,
    /// No order.
    Unreadable,
}

impl Content {
    /// Reads the text of a message.
    pub fn parse(activity: &ActivityId, text: &str) -> Self {
        let version = text.split('\t').next().and_then(|version| version.parse().ok());
        match decode(activity, text) {
            Some(content) => content,
            None if version.is_some_and(|version: i64| version > LINE_VERSION) => Self::Newer,
            None => Self::Unreadable,
        }
    }

    /// The order, if it is one.
    pub fn order(&self) -> Option<&NewOrder> {
        if let Self::Order(order) = self { Some(order) } else { None }
    }

    /// The entry of the line, if it is one.
    pub fn entry(&self) -> Option<&Entry> {
        if let Self::Entry(entry) = self { Some(entry) } else { None }
    }
}

/// Reads up to `count` new messages.
///
/// # Errors
/// `RedisUnavailable`: messages that Redis delivered are reclaimed later.
pub async fn read_new<R: Redis>(redis: &R, activity: &ActivityId, count: usize) -> Result<Vec<Message>, StoreError> {
    read(redis, activity, count, String::new()).await
}

/// Reclaims up to `count` messages that were delivered at least `idle_ms` ago and never acknowledged.
pub async fn reclaim<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    count: usize,
    idle_ms: i64,
) -> Result<Vec<Message>, StoreError> {
    read(redis, activity, count, idle_ms.to_string()).await
}

async fn read<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    count: usize,
    idle_ms: String,
) -> Result<Vec<Message>, StoreError> {
    let args = vec![WRITER_GROUP.into(), CONSUMER.into(), count.to_string().into(), idle_ms.into()];
    let mut reply = READ_MESSAGES.run(redis, Keys::of(activity).all(["orders"]), args).await?.after("found")?;
    let mut messages = Vec::with_capacity(reply.remaining() / 2);
    while reply.remaining() > 0 {
        let stream_id = reply.text()?;
        let text = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        messages.push(Message { stream_id, content: Content::parse(activity, &text), text });
    }
    Ok(messages)
}

/// An order as a message, for a dead letter: without the orders ahead of it.
pub fn encode_order(order: &NewOrder) -> String {
    let NewOrder { order_no, user, sku, quantity, money, created_at, epoch, sequence, offer: _ } = order;
    let Money { amount, currency } = money;
    let (ulid, created_at) = (order_no.ulid(), created_at.0);
    format!(
        "{VERSION}\t{ulid}\t{user}\t{sku}\t{quantity}\t{amount}\t{currency}\t{created_at}\t{epoch}\t{sequence}\t0\t0"
    )
}

/// Parses the message of an order.
pub(crate) fn decode_order(activity: &ActivityId, text: &str) -> Option<NewOrder> {
    decode(activity, text).and_then(|content| content.order().cloned())
}

/// Parses what [`encode_order`], and `queue_order` and `send_entry` of `crates/stores/lua`, write.
fn decode(activity: &ActivityId, text: &str) -> Option<Content> {
    let fields: Vec<&str> = text.split('\t').collect();
    let (version, line) = match fields.get(12..)? {
        [] => (VERSION, None),
        [kind, place] => {
            let (epoch, sequence) = place.split_once(' ')?;
            (LINE_VERSION, Some((*kind, Position { epoch: epoch.parse().ok()?, sequence: sequence.parse().ok()? })))
        }
        _ => return None,
    };
    let [found_version, ulid, user, sku, quantity, amount, currency, created_at, epoch, sequence, _, _] =
        *fields.first_chunk::<12>()?;
    if found_version != version.to_string() {
        return None;
    }
    let order = NewOrder {
        order_no: OrderNo::parse(&format!("{activity}.{ulid}")).ok()?,
        user: UserId::parse(user).ok()?,
        sku: SkuId::parse(sku).ok()?,
        quantity: quantity.parse().ok().filter(|quantity| *quantity > 0)?,
        money: Money::new(amount.parse().ok()?, currency),
        created_at: Millis(created_at.parse().ok()?),
        epoch: epoch.parse().ok()?,
        sequence: sequence.parse().ok()?,
        offer: None,
    };
    let Some((kind, place)) = line else { return Some(Content::Order(order)) };
    if let Some(pay_ms) = kind.strip_prefix("offer:") {
        let offer = Some(Offer { place, pay_ms: pay_ms.parse().ok()? });
        return Some(Content::Order(NewOrder { offer, ..order }));
    }
    let ended = if ["join", "again"].contains(&kind) { "" } else { kind };
    let entry = NewOrder { offer: Some(Offer { place, pay_ms: 0 }), ..order }.entry(ended)?;
    Some(Content::Entry(Entry { again: kind == "again", ..entry }))
}

/// Counts the messages in an activity's stream.
pub async fn length<R: Redis>(redis: &R, activity: &ActivityId) -> Result<i64, StoreError> {
    Reply::new(redis.command("XLEN", vec![Keys::of(activity).named("orders").into()]).await?).int()
}

/// Returns the stream ids of those `messages`, which were just reclaimed, that were delivered more than `times` times.
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

/// What waits for a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Messages in the stream.
    pub messages: i64,
    /// Queued orders. One whose message is gone is sent again (`resend`).
    pub orders: i64,
}

/// How a gate compares with the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceOutcome {
    /// There is no gate.
    NoGate,
    /// A rebuild has not finished the gate, which has this epoch.
    Restoring(i64),
    /// The gate is stopped: Redis has lost orders that it accepted, up to this one at least.
    Stopped(Position),
    /// The gate has the ledger's epoch.
    Current {
        /// Version of the activity in the gate.
        version: i64,
        /// Version that totals were lowered for; 0 if the gate has it.
        lowered: i64,
        /// Milliseconds since the gate was last warmed up.
        unchanged_ms: i64,
    },
    /// The gate has an older epoch, and is stopped.
    Fenced(Position),
    /// The gate has this later epoch: the ledger was restored from a backup.
    Newer(i64),
}

/// Stops the gate if it is behind `expected`, the ledger's epoch and its last order of that (G16); removes the `outdated` messages from the stream, which operators can see as dead letters by
/// now; returns units to the stock that no order holds (`lua/fence.lua`).
///
/// Returns how the gate compared, and what waits for a writer.
pub async fn fence<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    expected: Position,
    outdated: &[(&Message, &NewOrder)],
) -> Result<(FenceOutcome, Waiting), StoreError> {
    let keys = Keys::of(activity);
    let mut script_keys = keys.all(["gate", "orders", "stats", "queued"]);
    script_keys.extend(outdated.iter().map(|(_, order)| keys.order(order.order_no.ulid())));
    let messages =
        outdated.iter().map(|(message, order)| json!({ "epoch": order.epoch, "stream_id": message.stream_id }));
    let options = json!({
        "epoch": expected.epoch,
        "sequence": expected.sequence,
        "group": WRITER_GROUP,
        "closed_ttl": CLOSED_ORDER_TTL_SECONDS,
        "reason": OLD_EPOCH,
        "messages": messages.collect::<Vec<_>>(),
    });
    let mut reply = FENCE.run_with(redis, script_keys, &options).await?;
    let (word, waiting) = (reply.text()?, Waiting { messages: reply.int()?, orders: reply.int()? });
    let outcome = match word.as_str() {
        "no_gate" => FenceOutcome::NoGate,
        "stopped" => FenceOutcome::Stopped(Position { epoch: reply.int()?, sequence: reply.int()? }),
        "restoring" => FenceOutcome::Restoring(reply.int()?),
        "fenced" => FenceOutcome::Fenced(Position { epoch: reply.int()?, sequence: reply.int()? }),
        "newer" => FenceOutcome::Newer(reply.int()?),
        "current" => FenceOutcome::Current { version: reply.int()?, lowered: reply.int()?, unchanged_ms: reply.int()? },
        word => return Err(unexpected(word)),
    };
    Ok((outcome, waiting))
}

/// Stops the gate of a sale whose Redis has lost an order at this position (G16), unless a rebuild has begun since.
pub async fn stop<R: Redis>(redis: &R, activity: &ActivityId, lost: Position) -> Result<(), StoreError> {
    let args = vec![lost.epoch.to_string().into(), lost.sequence.to_string().into()];
    STOP.run(redis, Keys::of(activity).all(["gate"]), args).await?.after("done").map(|_| ())
}

/// Registers that a writer starts on an activity. Returns the time of Redis's clock, and the number of activities that
/// writers started on in the last second.
pub async fn start_writing<R: Redis>(redis: &R, activity: &ActivityId) -> Result<(Millis, i64), StoreError> {
    let args = vec![activity.as_str().into()];
    let mut reply = START_WRITING.run(redis, vec![WRITERS.to_owned()], args).await?.after("done")?;
    Ok((Millis(reply.int()?), reply.int()?))
}

/// Marks the order writer as idle, so that the next order rings the doorbell. Returns `false` if a message arrived in
/// the meantime. `rate` is the measured number of orders written per second.
pub async fn try_mark_idle<R: Redis>(redis: &R, activity: &ActivityId, rate: Option<i64>) -> Result<bool, StoreError> {
    let keys = Keys::of(activity);
    let script_keys = keys.all(["orders", "stats"]);
    let rate = rate.map(|rate| rate.to_string()).unwrap_or_default();
    WRITER_IDLE.run(redis, script_keys, vec![WRITER_GROUP.into(), rate.into_bytes()]).await?.is("rested", "more")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A message is read or becomes a dead letter, whatever is in the stream, and one that is read means what it says.
        #[test]
        fn any_text_is_an_order_or_none(text in "[^\t]{0,8}(\t[^\t]{0,12}){0,13}", order in "1\t[0-9A-Z]{26}\tada\ta\t[0-9-]{1,3}\t-?[0-9]{1,20}\tEUR\t[0-9]{1,20}\t[0-9]{1,3}\t[0-9]{1,5}\t0\t0") {
            let activity = ActivityId::parse("demo").expect("id");
            for text in [text, order] {
                if let Some(order) = decode_order(&activity, &text) {
                    prop_assert!(order.quantity > 0);
                    prop_assert_eq!(decode_order(&activity, &encode_order(&order)), Some(order));
                }
            }
        }

    }
}
