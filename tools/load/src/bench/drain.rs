//! Measures how fast the order writer writes the queued orders to the ledger.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::workload::Measurement;
use crate::app::App;
use crate::simulation::samples::fetch_stats;
use crate::simulation::setup::{ADMIN_TIMEOUT, TestActivity};

/// Pause between two polls. Bounds the error of a one-second measurement to two percent.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time until the queue is empty.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);
/// Shortest queue to report a rate for. With a shorter one the writer merely keeps up with the reservations.
const MIN_QUEUE_LENGTH: u64 = 500;

/// The result of draining the queue once.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Drain {
    /// Orders per second, from the first reservation to the empty queue.
    pub orders_per_second: f64,
    /// Orders in the queue after the last reservation was answered.
    #[serde(rename = "backlog")]
    pub queued: u64,
    /// Orders per second from then to the empty queue, without concurrent reservations. `None` if the queue was too
    /// short.
    pub drained_per_second: Option<f64>,
}

/// Waits until all orders of `reservations` (a measurement that has just ended) are in the ledger.
pub async fn wait_until_drained(app: &App, activity: &TestActivity, reservations: &Measurement) -> Result<Drain> {
    let waiting_since = Instant::now();
    let mut first_poll = None;
    loop {
        let asked_at = Instant::now();
        let stats = fetch_stats(app, activity, ADMIN_TIMEOUT).await.context("the admin API shows no live figures")?;
        let queued = stats.queue;
        let (first, since) = *first_poll.get_or_insert((queued, asked_at));
        if queued == 0 {
            return Ok(Drain {
                orders_per_second: reservations.succeeded as f64 / reservations.started_at.elapsed().as_secs_f64(),
                queued: first,
                drained_per_second: (first >= MIN_QUEUE_LENGTH).then(|| first as f64 / since.elapsed().as_secs_f64()),
            });
        }
        ensure!(
            waiting_since.elapsed() < DRAIN_TIMEOUT,
            "{queued} orders still wait for the order writer after {} s: is it running?",
            DRAIN_TIMEOUT.as_secs()
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
