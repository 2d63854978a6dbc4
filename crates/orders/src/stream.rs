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
use serde_json::json;
use stores::{
    keys::{Keys, WRITER_GROUP, WRITERS},
    ports::{Redis, RedisArg, RedisValue, StoreError},
    reply::{Reply, unexpected},
};

use crate::{
    order_record::NewOrder,
    scripts::{FENCE, START_WRITING, WRITER_IDLE},
    sync::CLOSED_ORDER_TTL_SECONDS,
};

/// Reason of a dead letter: Redis was rebuilt, or replaced by an older copy, after the order was accepted (G5).
pub const OLD_EPOCH: &str = "old_epoch";

/// All writers share one consumer name. Abandoned messages are recognised by their idle time alone, and no unused
/// consumer names pile up.
const CONSUMER: &str = "writer";

/// A message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id in the stream.
    pub stream_id: String,
    /// The order, or the text that cannot be parsed.
    pub order: Result<NewOrder, String>,
}

/// Reads up to `count` new messages.
///
/// # Errors
/// `RedisUnavailable`: messages that Redis delivered are reclaimed later.
pub async fn read_new<R: Redis>(redis: &R, activity: &ActivityId, count: usize) -> Result<Vec<Message>, StoreError> {
    let stream = Keys::of(activity).named("orders");
    let count = count.to_string();
    let args = ["GROUP", WRITER_GROUP, CONSUMER, "COUNT", &count, "STREAMS", &stream, ">"];
    let read = || redis.command("XREADGROUP", args.map(RedisArg::from).into());
    let items = match read().await {
        // The stream was lost and started anew: create its group again, from the first message on. If there is no
        // stream, do not create one: nothing would delete it again.
        Err(StoreError::NoConsumerGroup(_)) => {
            if redis.command("EXISTS", vec![stream.as_str().into()]).await? != [RedisValue::Int(1)] {
                return Ok(Vec::new());
            }
            let args = ["CREATE", stream.as_str(), WRITER_GROUP, "0"];
            match redis.command("XGROUP", args.map(RedisArg::from).into()).await {
                // Another writer has just created it.
                Err(StoreError::ConsumerGroupExists(_)) => {}
                other => other.map(|_| ())?,
            }
            read().await?
        }
        other => other?,
    };
    // The flat reply begins with the stream's name.
    Ok(parse_messages(activity, items.get(1..).unwrap_or_default()))
}

/// Reclaims up to `count` messages that were delivered at least `idle_ms` ago and never acknowledged.
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
        Err(StoreError::NoConsumerGroup(_)) => Ok(Vec::new()),
        // The flat reply begins with the cursor and ends with the ids of deleted messages, which no field follows.
        other => Ok(parse_messages(activity, other?.get(1..).unwrap_or_default())),
    }
}

/// Parses `id, "o", text` triples; skips anything else.
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

/// An order as a message of the stream.
pub fn encode_order(order: &NewOrder) -> String {
    let NewOrder { order_no, user, sku, quantity, money: Money { amount, currency }, created_at, epoch } = order;
    format!("{}\t{user}\t{sku}\t{quantity}\t{amount}\t{currency}\t{}\t{epoch}", order_no.ulid(), created_at.0)
}

/// Parses what [`encode_order`] and `lua/reserve.lua` write.
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

/// How a gate compares with the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceOutcome {
    /// There is no gate, or a rebuild has not finished it.
    NoGate,
    /// The gate has the ledger's epoch.
    Current {
        /// Version of the activity in the gate.
        version: i64,
        /// Version that totals were lowered for; 0 if the gate has it.
        lowered: i64,
        /// Milliseconds since the gate was last warmed up.
        unchanged_ms: i64,
    },
    /// The gate had an older epoch, and is deleted now.
    Deleted,
    /// The gate has this later epoch: the ledger was restored from a backup.
    Newer(i64),
}

/// Deletes the gate if its epoch is older than the ledger's `epoch`; removes the `outdated` messages from the stream,
/// which operators can see as dead letters by now; returns units to the stock that were left out and that no order
/// holds (`lua/fence.lua`). `live_units` are those of the ledger, read before; SKUs without an entry stay as they are.
///
/// Returns how the gate compared, and the number of messages in the stream.
pub async fn fence<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    epoch: i64,
    live_units: &[(SkuId, i64)],
    outdated: &[(&Message, &NewOrder)],
) -> Result<(FenceOutcome, i64), StoreError> {
    let keys = Keys::of(activity);
    let mut script_keys: Vec<_> = ["gate", "orders", "stats"].map(|name| keys.named(name)).into();
    script_keys.extend(outdated.iter().map(|(_, order)| keys.order(order.order_no.ulid())));
    let live_units = live_units.iter().map(|(sku, units)| json!({ "sku": sku, "units": units }));
    let messages =
        outdated.iter().map(|(message, order)| json!({ "epoch": order.epoch, "stream_id": message.stream_id }));
    let options = json!({
        "prefix": keys.prefix(),
        "epoch": epoch,
        "group": WRITER_GROUP,
        "closed_ttl": CLOSED_ORDER_TTL_SECONDS,
        "reason": OLD_EPOCH,
        "live_units": live_units.collect::<Vec<_>>(),
        "messages": messages.collect::<Vec<_>>(),
    });
    let mut reply = FENCE.run_with(redis, script_keys, &options).await?;
    let (word, queued) = (reply.text()?, reply.int()?);
    let outcome = match word.as_str() {
        "no_gate" => FenceOutcome::NoGate,
        "deleted" => FenceOutcome::Deleted,
        "newer" => FenceOutcome::Newer(reply.int()?),
        "current" => FenceOutcome::Current { version: reply.int()?, lowered: reply.int()?, unchanged_ms: reply.int()? },
        word => return Err(unexpected(word)),
    };
    Ok((outcome, queued))
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
    let script_keys = vec![keys.named("orders"), keys.named("stats")];
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
        fn any_text_is_an_order_or_none(text in "[^\t]{0,8}(\t[^\t]{0,12}){0,9}", order in "[0-9A-Z]{26}\tada\ta\t[0-9-]{1,3}\t-?[0-9]{1,20}\tEUR\t[0-9]{1,20}\t[0-9]{1,3}") {
            let activity = ActivityId::parse("demo").expect("id");
            for text in [text, order] {
                if let Some(order) = decode_order(&activity, &text) {
                    prop_assert!(order.quantity > 0);
                    prop_assert_eq!(decode_order(&activity, &encode_order(&order)), Some(order));
                }
            }
        }

        #[test]
        fn any_reply_is_read(items in proptest::collection::vec("o|[0-9]{1,3}-0|\\PC{0,9}", 0..12)) {
            let activity = ActivityId::parse("demo").expect("id");
            let items: Vec<_> = items.into_iter().map(|item| RedisValue::Bytes(item.into_bytes())).collect();
            prop_assert!(parse_messages(&activity, &items).len() <= items.len() / 3);
        }
    }
}
