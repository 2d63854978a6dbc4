//! Drains the order stream into the ledger whenever the doorbell rings (D3).

#![allow(unsafe_code, reason = "what the macro exports is")]

use std::time::Instant;

use spin_sdk::{redis::Payload, redis_subscriber};
use stampede_domain::ids::ActivityId;
use stampede_platform::{ledger::SpinLedger, log, redis::SpinRedis};
use stampede_sale::{DOORBELL, Redis, StoreError, hot::reserve::doorbell, write};

/// Batches per wake-up at most: other sales want their turn.
const BATCHES: usize = 40;

#[redis_subscriber]
async fn handle(message: Payload) -> anyhow::Result<()> {
    let Some(activity) = doorbell(&message) else { return Ok(()) };
    if let Err(error) = drain(&activity).await {
        let fields = [("activity", activity.as_str().into()), ("because", error.to_string().into())];
        log::error("order writer stopped early; the sweeper goes on", &fields);
    }
    Ok(())
}

/// Writes until the stream is empty, or for [`BATCHES`]; then rings for itself.
async fn drain(activity: &ActivityId) -> Result<(), StoreError> {
    let ledger = SpinLedger::open().await;
    let (started, mut written) = (Instant::now(), 0);
    for _ in 0..BATCHES {
        let step = write::tick(&SpinRedis, &ledger, activity, SpinRedis.now().await?).await?;
        written += step.written;
        if step.taken == 0 {
            let seconds = started.elapsed().as_secs_f64();
            // A rate is worth noting when enough was written to measure one.
            let rate = (written >= write::BATCH).then(|| (written as f64 / seconds) as i64);
            if write::rest(&SpinRedis, activity, rate).await? {
                return Ok(());
            }
        }
    }
    SpinRedis.command("PUBLISH", vec![DOORBELL.into(), activity.as_str().into()]).await.map(|_| ())
}
