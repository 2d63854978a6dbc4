//! Waits until a sale is finished and calls the sweeper, as cron would.
//!
//! Finished: the queue is empty, no unpaid units are held, no order changes any more without a request, no buyer acts, and no
//! unit is to be offered to the line.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{context::RunContext, samples::fetch_stats};
use crate::{app::ADMIN_TIMEOUT, wire::Stats};

/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How often a unit that is to be offered is looked at before it counts as free.
const FREE_UNITS_READS: u32 = 5;
const FREE_UNITS_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Finish {
    /// Whether the sale is finished; else the time is up.
    pub is_finished: bool,
    /// SKUs of which units were free after a sweep, and still after the next one, while buyers waited (I8).
    pub unoffered: BTreeSet<String>,
}

/// Waits until the sale is finished, or nothing has changed for the time to pay plus `--finish-timeout`.
pub async fn wait_until_finished(run: &RunContext) -> Finish {
    let sweep_every = Duration::from_secs(run.options.sweep_every.into());
    let timeout = run.options.pay_timeout().max(run.options.offer_timeout())
        + Duration::from_secs(run.options.finish_timeout.into());
    let mut deadline = Instant::now() + timeout;
    let mut next_sweep = Instant::now();
    let mut finish = Finish::default();
    let mut last_seen = String::new();
    let mut free_before = BTreeSet::new();
    while Instant::now() < deadline {
        if !sweep_every.is_zero() && Instant::now() >= next_sweep {
            // An error is ignored: cron repeats the call a few seconds later.
            if run.app.sweep_report().await.is_some_and(|report| is_complete(&report)) {
                let free = free_units(run).await;
                finish.unoffered.extend(free_before.intersection(&free).cloned());
                free_before = free;
            }
            next_sweep = Instant::now() + sweep_every;
        }
        let is_any_acting = run.line.acting() > 0;
        if let Some(stats) = fetch_stats(&run.app, &run.activity, ADMIN_TIMEOUT).await {
            let seen = describe(&stats);
            run.progress.finishing.set_message(seen.clone());
            if !is_any_acting && is_finished(&stats) {
                finish.is_finished = true;
                return finish;
            }
            if seen != last_seen {
                (last_seen, deadline) = (seen, Instant::now() + timeout);
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    finish.unoffered.append(&mut free_units(run).await);
    finish
}

/// Whether a sweep did all of its work.
fn is_complete(report: &Value) -> bool {
    report["swept"] == true && report["more"] == false && report["stuck"].as_array().is_none_or(Vec::is_empty)
}

/// The SKUs of which units are free while buyers wait. A step that frees units offers them in its next call, so that a few
/// reads in a row must show them.
async fn free_units(run: &RunContext) -> BTreeSet<String> {
    let mut free: Option<BTreeSet<String>> = None;
    for _ in 0..FREE_UNITS_READS {
        let Some(stats) = fetch_stats(&run.app, &run.activity, ADMIN_TIMEOUT).await else { return BTreeSet::new() };
        let seen: BTreeSet<_> = stats.skus.into_iter().filter(|sku| sku.to_offer > 0).map(|sku| sku.sku).collect();
        let still_free = free.map_or_else(|| seen.clone(), |free| free.intersection(&seen).cloned().collect());
        if still_free.is_empty() {
            return still_free;
        }
        free = Some(still_free);
        tokio::time::sleep(FREE_UNITS_PAUSE).await;
    }
    free.unwrap_or_default()
}

fn is_finished(stats: &Stats) -> bool {
    stats.queue == 0 && stats.skus.iter().all(|sku| sku.held == 0 && sku.to_offer == 0) && open_orders(stats) == 0
}

/// Number of orders that will still change without a request.
fn open_orders(stats: &Stats) -> u64 {
    ["queued", "pending_payment", "refunding"].iter().filter_map(|status| stats.orders.get(*status)).sum()
}

fn describe(stats: &Stats) -> String {
    let held: i64 = stats.skus.iter().map(|sku| sku.held).sum();
    let waiting: i64 = stats.skus.iter().map(|sku| sku.waiting).sum();
    let waiting = if waiting > 0 { format!(", {waiting} waiting") } else { String::new() };
    format!("{} in the queue, {held} units held, {} orders open{waiting}", stats.queue, open_orders(stats))
}
