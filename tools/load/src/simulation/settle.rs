//! After the rush: plays cron and waits until the queue is empty and nobody holds unpaid units any more.

use std::time::{Duration, Instant};

use super::samples::stats;
use super::session::Session;
use super::setup::ADMIN_PATIENCE;
use crate::wire::Stats;

/// Pause between two looks.
const PACE: Duration = Duration::from_millis(500);

/// Waits until the books are at rest, or until every order is overdue by `--settle`; `false` in the latter case.
pub async fn settle(session: &Session) -> bool {
    let sweep_every = Duration::from_secs(session.options.sweep_every.into());
    let seconds = session.options.pay_timeout + session.options.settle;
    let deadline = Instant::now() + Duration::from_secs(seconds.into());
    let mut next_sweep = Instant::now();
    while Instant::now() < deadline {
        if !sweep_every.is_zero() && Instant::now() >= next_sweep {
            session.app.sweep().await;
            next_sweep = Instant::now() + sweep_every;
        }
        if let Some(stats) = stats(&session.app, &session.terms, ADMIN_PATIENCE).await {
            session.progress.settling.set_message(describe(&stats));
            if at_rest(&stats) {
                return true;
            }
        }
        tokio::time::sleep(PACE).await;
    }
    false
}

fn at_rest(stats: &Stats) -> bool {
    stats.queue == 0 && stats.skus.iter().all(|sku| sku.held == 0) && moving(stats) == 0
}

/// Orders that will still change by themselves.
fn moving(stats: &Stats) -> u64 {
    ["queued", "pending_payment", "refunding"].iter().filter_map(|status| stats.orders.get(*status)).sum()
}

fn describe(stats: &Stats) -> String {
    let held: i64 = stats.skus.iter().map(|sku| sku.held).sum();
    format!("{} in the queue, {held} units held, {} orders open", stats.queue, moving(stats))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats(length: u64, held: i64, pending: u64) -> Stats {
        serde_json::from_value(json!({
            "skus": [{"sku": "a", "total": 5, "left": 5 - held, "held": held, "sold": 0}],
            "queue": length,
            "orders": {"pending_payment": pending, "paid": 3},
        }))
        .unwrap()
    }

    #[test]
    fn the_books_rest_when_nothing_is_queued_held_or_pending() {
        assert!(at_rest(&stats(0, 0, 0)));
        assert!(!at_rest(&stats(1, 0, 0)));
        assert!(!at_rest(&stats(0, 1, 0)));
        assert!(!at_rest(&stats(0, 0, 1)));
    }
}
