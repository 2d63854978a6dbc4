//! Delivers events to the shop (E7).
//!
//! Delivery has its own lease, so that a slow endpoint does not delay the next sweep's expiry of orders.

use std::time::Instant;

use platform::{clock, config, http::ApiError, http_client::SpinHttpClient, ledger::SpinLedger, redis::SpinRedis};
use workflows::{
    cache::lease,
    ledger::events::set_enabled,
    queue::event_delivery::{self, TIMEOUT_MS, WebhookTarget},
    recovery::{report::Report, sweep::EVENTS_LEASE_KEY},
};

use crate::budget::TIME_BUDGET;

/// How long the lease for one round lasts, in milliseconds: the endpoint's timeout, and 10 s for the ledger.
const ROUND_LEASE_MS: i64 = TIMEOUT_MS + 10_000;

/// Turns the outbox on if the shop has an `events_url`, else off, so that events without a recipient do not accumulate.
/// Returns whether it is on.
pub async fn switch_outbox(ledger: &SpinLedger) -> Result<bool, ApiError> {
    let on = !config::get("events_url").await.is_empty();
    set_enabled(ledger, on).await?;
    Ok(on)
}

/// Delivers in rounds until nothing is due, the time budget is used up, or another sweeper has the lease.
pub async fn deliver(ledger: &SpinLedger, owner: &str, started: Instant, report: &mut Report) -> Result<(), ApiError> {
    let (url, secrets) = (config::get("events_url").await, config::get("events_secret").await);
    let target = WebhookTarget { url: &url, secrets: &secrets };
    while lease::hold(&SpinRedis, EVENTS_LEASE_KEY, owner, ROUND_LEASE_MS).await? {
        let round = event_delivery::deliver_due(&SpinHttpClient, ledger, target, clock::now).await?;
        report.events += round.delivered;
        report.events_failed += round.failed;
        if !round.more {
            break;
        }
        if started.elapsed() > TIME_BUDGET {
            report.more = true;
            break;
        }
    }
    Ok(lease::release(&SpinRedis, EVENTS_LEASE_KEY, owner).await?)
}
