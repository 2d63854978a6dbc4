//! What a sweep forgets, now and then: addresses, events, callbacks and sales whose time is over.

use domain::time::Millis;
use platform::{config, http::ApiError, ledger::SpinLedger, redis::SpinRedis};
use workflows::{
    ledger::{addresses, events, payments},
    recovery::sweep::{self, ERASE_LEASE_KEY, Report},
};

/// How often, in milliseconds: the lease is left to run out.
const INTERVAL_MS: i64 = 10 * 60_000;

/// Rows of a kind that are erased in one statement.
const BATCH: i64 = 1_000;

/// Batches of a kind in one call.
const MAX_BATCHES: usize = 10;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Days for which an address is kept where the variable says nothing sensible.
const ADDRESS_DAYS: i64 = 30;

/// Days for which callbacks are kept: longer than any provider sends one again (E2).
const CALLBACK_DAYS: i64 = 30;

/// Erases, unless somebody has just done so.
pub async fn erase(ledger: &SpinLedger, owner: &str, now: Millis, report: &mut Report) -> Result<(), ApiError> {
    if !sweep::hold_lease(&SpinRedis, ERASE_LEASE_KEY, owner, INTERVAL_MS).await? {
        return Ok(());
    }
    sweep::unlist_ended(&SpinRedis, ledger, now).await?;
    let days = config::get("address_retention_days").await.parse().ok().filter(|days| *days >= 0);
    let addresses_before = now.plus(-days.unwrap_or(ADDRESS_DAYS) * DAY_MS);
    let callbacks_before = now.plus(-CALLBACK_DAYS * DAY_MS);
    for _ in 0..MAX_BATCHES {
        let erased = addresses::erase(ledger, addresses_before, BATCH).await?
            + events::erase(ledger, now, BATCH).await?
            + payments::erase(ledger, callbacks_before, BATCH).await?;
        report.erased += erased;
        if erased == 0 {
            break;
        }
    }
    Ok(())
}
