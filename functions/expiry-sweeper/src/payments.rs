//! What a sweep does about money: asks providers before orders are released, finishes callbacks, sends refunds.

use domain::time::Millis;
use platform::{http::ApiError, ledger::SpinLedger, log, provider, redis::SpinRedis};
use workflows::{
    payments::{callbacks, provider::RetryPolicy, refunds, sessions},
    recovery::sweep::Report,
};

/// Payment sessions that are asked about at once.
const MAX_SESSIONS: i64 = 16;

/// Refunds of each kind that are under way at once.
const MAX_REFUNDS: i64 = 20;

/// Callbacks finished in one round at most.
const MAX_CALLBACKS: i64 = 200;

/// One round; answers whether there was anything to do. Without a provider, only callbacks are finished: an order that
/// nobody can be asked about is released a little later. The first `waiting` callbacks wait for a rebuild.
pub async fn run_round(
    ledger: &SpinLedger,
    now: Millis,
    skipped_callbacks: &mut usize,
    report: &mut Report,
) -> Result<bool, ApiError> {
    let skipped_before = *skipped_callbacks;
    let finished = callbacks::apply_pending(&SpinRedis, ledger, now, MAX_CALLBACKS, skipped_callbacks).await?;
    report.callbacks += finished;
    let finished = finished + *skipped_callbacks - skipped_before;
    let Ok(provider) = provider::from_config(RetryPolicy::SWEEPER).await else { return Ok(finished > 0) };
    let outcome = sessions::close_due(&SpinRedis, ledger, &provider, now, MAX_SESSIONS).await?;
    for (order_no, reason) in &outcome.unanswered {
        let fields = [("order_no", order_no.to_string().into()), ("because", reason.as_str().into())];
        log::error("the payment provider does not say; it is asked again", &fields);
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
