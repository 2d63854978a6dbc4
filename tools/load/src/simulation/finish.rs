//! Waits until a sale is finished and calls the sweeper, as cron would.
//!
//! Finished: the queue is empty, no unpaid units are held, and no order changes any more without a request.

use std::time::{Duration, Instant};

use super::{context::RunContext, samples::fetch_stats};
use crate::{app::ADMIN_TIMEOUT, wire::Stats};

/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the sale is finished. Returns `false` if that takes longer than the pay timeout plus `--finish-timeout`.
pub async fn wait_until_finished(run: &RunContext) -> bool {
    let sweep_every = Duration::from_secs(run.options.sweep_every.into());
    let seconds = run.options.pay_timeout + run.options.finish_timeout;
    let deadline = Instant::now() + Duration::from_secs(seconds.into());
    let mut next_sweep = Instant::now();
    while Instant::now() < deadline {
        if !sweep_every.is_zero() && Instant::now() >= next_sweep {
            // An error is ignored: cron repeats the call a few seconds later.
            let _ = run.app.sweep_report().await;
            next_sweep = Instant::now() + sweep_every;
        }
        if let Some(stats) = fetch_stats(&run.app, &run.activity, ADMIN_TIMEOUT).await {
            run.progress.finishing.set_message(describe(&stats));
            if is_finished(&stats) {
                return true;
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    false
}

fn is_finished(stats: &Stats) -> bool {
    stats.queue == 0 && stats.skus.iter().all(|sku| sku.held == 0) && open_orders(stats) == 0
}

/// Number of orders that will still change without a request.
fn open_orders(stats: &Stats) -> u64 {
    ["queued", "pending_payment", "refunding"].iter().filter_map(|status| stats.orders.get(*status)).sum()
}

fn describe(stats: &Stats) -> String {
    let held: i64 = stats.skus.iter().map(|sku| sku.held).sum();
    format!("{} in the queue, {held} units held, {} orders open", stats.queue, open_orders(stats))
}
