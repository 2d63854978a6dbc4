//! Finishes payment callbacks, closes payment sessions of due orders, and sends refunds.

use domain::time::Millis;
use platform::{http::ApiError, ledger::SpinLedger, log, provider, redis::SpinRedis};
use workflows::{
    payments::{callbacks, provider::RetryPolicy, refunds, sessions},
    recovery::report::Report,
};

/// Maximum number of payment sessions closed at the provider in one round, concurrently.
const MAX_SESSIONS: i64 = 16;

/// Maximum number of refunds of each kind sent in one round.
const MAX_REFUNDS: i64 = 20;

/// Maximum number of callbacks finished in one round.
const MAX_CALLBACKS: i64 = 200;

/// Runs one round; returns whether there was anything to do.
///
/// Without a configured provider, only callbacks are finished; orders with an open payment session are released later.
///
/// Callbacks of an activity that is being rebuilt, or that a store fails on, cannot be finished now. `skipped_callbacks`
/// counts those that earlier rounds of this sweep found: they are the oldest, and this round starts after them. It adds
/// those that it finds itself.
pub async fn run_round(
    ledger: &SpinLedger,
    now: Millis,
    skipped_callbacks: &mut usize,
    report: &mut Report,
) -> Result<bool, ApiError> {
    let finished = callbacks::apply_pending(&SpinRedis, ledger, now, MAX_CALLBACKS, skipped_callbacks, report).await?;
    let Ok(provider) = provider::from_config(RetryPolicy::SWEEPER).await else { return Ok(finished > 0) };
    let outcome = sessions::close_due(&SpinRedis, ledger, &provider, now, MAX_SESSIONS).await?;
    for (order_no, reason) in &outcome.unanswered {
        let fields = [("order_no", order_no.to_string().into()), ("because", reason.as_str().into())];
        log::error("the payment provider does not say; it is asked again", &fields);
    }
    for (order_no, error) in outcome.failures {
        report.add_failure(order_no.activity(), error);
    }
    let refunds = refunds::send_due(&SpinRedis, ledger, &provider, now, MAX_REFUNDS).await?;
    for refund in &refunds.failed {
        let fields = [("order_no", refund.order_no.as_str().into()), ("because", refund.reason.as_str().into())];
        log::error("refund not taken by the provider; it is tried again", &fields);
    }
    report.asked += outcome.queried;
    report.refunds += refunds.attempted;
    Ok(finished + outcome.queried + refunds.attempted > 0)
}
