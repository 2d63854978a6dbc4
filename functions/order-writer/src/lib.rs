//! Writes queued orders into the ledger whenever a doorbell message arrives (D3).

#![allow(unsafe_code, reason = "`redis_subscriber` exports unsafe functions")]

use domain::ids::ActivityId;
use platform::{ledger::SpinLedger, log, redis::SpinRedis};
use spin_sdk::{redis::Payload, redis_subscriber};
use workflows::{DOORBELL_CHANNEL, Redis, StoreError, hot::reserve::parse_doorbell, queue::order_writer};

/// Maximum number of batches per doorbell message, so that one activity does not hold up the others.
const MAX_BATCHES: usize = 10;

#[redis_subscriber]
async fn handle(message: Payload) -> anyhow::Result<()> {
    let Some(activity) = parse_doorbell(&message) else { return Ok(()) };
    if let Err(error) = drain(&activity).await {
        let fields = [("activity", activity.as_str().into()), ("because", error.to_string().into())];
        log::error("order writer stopped early; the sweeper goes on", &fields);
    }
    Ok(())
}

/// Drains up to [`MAX_BATCHES`] batches of one activity. If messages remain, it publishes a doorbell for itself, which
/// queues behind those that other activities have published meanwhile.
async fn drain(activity: &ActivityId) -> Result<(), StoreError> {
    let now = SpinRedis.now().await?;
    let (_, more) =
        order_writer::drain(&SpinRedis, &SpinLedger::open_for_batch().await, activity, now, MAX_BATCHES).await?;
    if more {
        SpinRedis.command("PUBLISH", vec![DOORBELL_CHANNEL.into(), activity.as_str().into()]).await?;
    }
    Ok(())
}
