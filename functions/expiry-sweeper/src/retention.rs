//! Erases delivery addresses, events, callbacks and old activities after their retention period.
//!
//! Also removes ended activities from the set of activities in Redis, so that sweeps no longer visit them.

use std::time::Instant;

use domain::time::Millis;
use platform::{config, http::ApiError, ledger::SpinLedger, redis::SpinRedis};
use workflows::{
    cache::lease,
    ledger::{addresses, events, payments},
    recovery::{erasure, gates, report::Report, sweep::ERASE_LEASE_KEY},
};

use crate::budget::TIME_BUDGET;

/// How often this runs, in milliseconds: the lease is not released but expires.
const INTERVAL_MS: i64 = 10 * 60_000;

/// Maximum number of rows of a kind erased by one statement.
const BATCH: i64 = 1_000;

/// Maximum number of batches of each kind in one sweep.
const MAX_BATCHES: usize = 10;

/// Maximum number of batches of old orders in one sweep.
const MAX_ORDER_BATCHES: usize = 10;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Days for which delivery addresses are kept if the variable `address_retention_days` is not a number of 0 or more.
const ADDRESS_DAYS: i64 = 30;

/// Days for which callbacks are kept: longer than any provider retries one (E2).
const CALLBACK_DAYS: i64 = 30;

/// Erases what is past its retention period, unless a sweep did so in the last 10 minutes.
/// Begins no batch of addresses, events or callbacks after the time budget, counted from `started`.
pub async fn erase(
    ledger: &SpinLedger,
    owner: &str,
    (now, started): (Millis, Instant),
    report: &mut Report,
) -> Result<(), ApiError> {
    if !lease::hold(&SpinRedis, ERASE_LEASE_KEY, owner, INTERVAL_MS).await? {
        return Ok(());
    }
    gates::unlist_ended(&SpinRedis, ledger, now).await?;
    let days = config::get("address_retention_days").await.parse().ok().filter(|days| *days >= 0);
    let addresses_before = now.plus(-days.unwrap_or(ADDRESS_DAYS) * DAY_MS);
    let callbacks_before = now.plus(-CALLBACK_DAYS * DAY_MS);
    for _ in 0..MAX_BATCHES {
        let erased = addresses::erase(ledger, addresses_before, BATCH).await?
            + events::erase(ledger, now, BATCH).await?
            + payments::erase(ledger, callbacks_before, BATCH).await?;
        report.erased += erased;
        if erased == 0 || started.elapsed() >= TIME_BUDGET {
            break;
        }
    }
    // Without a number of days, activities are kept.
    let days = config::get("retention_days").await.parse::<i64>().ok().filter(|days| (0..100_000).contains(days));
    if let Some(days) = days {
        let before = now.plus(-days * DAY_MS);
        let (orders, activities) = erasure::erase_old(&SpinRedis, ledger, before, BATCH, MAX_ORDER_BATCHES).await?;
        report.erased += orders;
        report.erased_activities += activities;
    }
    Ok(())
}
