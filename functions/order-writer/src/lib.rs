//! Writes queued orders into the ledger whenever a doorbell message arrives (D3).

#![allow(unsafe_code, reason = "`redis_subscriber` exports unsafe functions")]

use std::{cell::Cell, time::Duration};

use orders::{
    doorbell::{Doorbell, ring_for_one},
    message_batch::WriteReport,
    order_writer::{self, DrainBudget},
    stream,
};
use platform::{counts, ledger::SpinLedger, log, random, redis::SpinRedis};
use spin_sdk::{redis::Payload, redis_subscriber};
use stores::{StoreError, counts::Count, ledger::clock};

/// How long a writer waits for the next orders of a busy activity. Buyers ask for the status of an order after a second.
const PAUSE: Duration = Duration::from_millis(70);

/// Maximum number of pauses per doorbell message: an engine handles one message at a time, and another activity's may
/// wait. While several activities have orders to write, there is no pause.
const MAX_PAUSES: u32 = 2;

#[redis_subscriber]
async fn handle(message: Payload) -> anyhow::Result<()> {
    let Some(doorbell) = Doorbell::parse(&message) else { return Ok(()) };
    let result = drain(&doorbell).await;
    if !matches!(result, Ok(WriteReport { messages: 0, .. })) {
        counts::add_work("writer", &result);
        let report = result.as_ref().ok().cloned().unwrap_or_default();
        for (order_no, reason) in &report.dead_letters {
            let fields = [("order_no", order_no.as_str().into()), ("because", (*reason).into())];
            log::error("the ledger refused an order", &fields);
        }
        for (kind, result, number) in [
            ("batch", "ok", report.batches),
            ("message", "written", report.written),
            ("message", "failed", report.failed),
            ("message", "unanswered", report.unanswered),
            ("message", "newer", report.newer),
            ("message", "unreadable", report.unreadable),
        ] {
            counts::add(Count::Work { kind, result }, number);
        }
        counts::hand_over().await;
    }
    if let Err(error) = result {
        let fields = [("activity", doorbell.activity.as_str().into()), ("because", error.to_string().into())];
        log::error("order writer stopped early; the sweeper goes on", &fields);
    }
    Ok(())
}

/// Drains one activity within [`DrainBudget::DOORBELL`], unless another replica has claimed the message. If messages
/// remain, it rings for one writer; that message queues behind those that other activities have published meanwhile.
async fn drain(doorbell: &Doorbell) -> Result<WriteReport, StoreError> {
    if !doorbell.claim(&SpinRedis, random::bits()).await? {
        return Ok(WriteReport::default());
    }
    let (activity, ledger) = (&doorbell.activity, SpinLedger::open_for_batch().await);
    // Alone, as far as a Redis that does not answer can tell.
    let (_, activities) = stream::start_writing(&SpinRedis, activity).await.unwrap_or_default();
    let now = clock::now(&ledger).await?;
    let pauses = Cell::new(if activities > 1 { 0 } else { MAX_PAUSES });
    let pause = async || {
        if pauses.get() > 0 {
            pauses.set(pauses.get() - 1);
            spin_sdk::time::sleep(PAUSE).await;
        }
    };
    let (report, more) = order_writer::drain(&SpinRedis, &ledger, activity, now, DrainBudget::DOORBELL, pause).await?;
    if more {
        ring_for_one(&SpinRedis, activity, random::bits()).await?;
    }
    Ok(report)
}
