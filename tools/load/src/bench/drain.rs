//! The order writer: how fast a backlog of reservations reaches the ledger.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::closed_loop::Sample;
use crate::app::App;
use crate::simulation::samples::stats;
use crate::simulation::setup::{ADMIN_PATIENCE, Terms};

/// Pause between two looks: the error of a measurement of a second is two in a hundred at most.
const PACE: Duration = Duration::from_millis(20);
/// How long a backlog may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// A smaller backlog says nothing about the writer but that it keeps up.
const WORTH_MEASURING: u64 = 500;

/// One drained backlog.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Drain {
    /// Orders from the first reservation to the empty queue, per second.
    pub orders_per_second: f64,
    /// Orders that waited when the last reservation had been answered.
    pub backlog: u64,
    /// How fast those went, with no reservation beside them; `None` where there were too few.
    pub drained_per_second: Option<f64>,
}

/// Waits until all orders of `filled` (a measurement that has just ended) are in the ledger.
pub async fn wait(app: &App, terms: &Terms, filled: &Sample) -> Result<Drain> {
    let enqueued = Instant::now();
    let mut backlog = None;
    loop {
        let asked = Instant::now();
        let stats = stats(app, terms, ADMIN_PATIENCE).await.context("the admin API shows no live figures")?;
        let waiting = stats.queue;
        let (first, since) = *backlog.get_or_insert((waiting, asked));
        if waiting == 0 {
            return Ok(Drain {
                orders_per_second: filled.answers as f64 / filled.began.elapsed().as_secs_f64(),
                backlog: first,
                drained_per_second: (first >= WORTH_MEASURING).then(|| first as f64 / since.elapsed().as_secs_f64()),
            });
        }
        ensure!(
            enqueued.elapsed() < PATIENCE,
            "{waiting} orders still wait for the order writer after {} s: is it running?",
            PATIENCE.as_secs()
        );
        tokio::time::sleep(PACE).await;
    }
}
