//! What a sweep does about money: asks providers before orders are released, finishes callbacks, sends refunds.

use domain::time::Millis;
use platform::{http::Failure, ledger::SpinLedger, log, provider, redis::SpinRedis};
use workflows::{
    payments::{callbacks, provider::Patience, refunds, sessions},
    recovery::sweep::Report,
};

/// Payment sessions that are asked about at once.
const SESSIONS: i64 = 16;

/// Refunds of each kind that are under way at once.
const REFUNDS: i64 = 20;

/// Callbacks finished in one round at most.
const CALLBACKS: i64 = 200;

/// One round; answers whether there was anything to do. Without a provider, only callbacks are finished: an order that
/// nobody can be asked about is released a little later. The first `waiting` callbacks wait for a rebuild.
pub async fn round(
    ledger: &SpinLedger,
    now: Millis,
    waiting: &mut usize,
    report: &mut Report,
) -> Result<bool, Failure> {
    let before = *waiting;
    let finished = callbacks::finish(&SpinRedis, ledger, now, CALLBACKS, waiting).await?;
    report.callbacks += finished;
    let finished = finished + *waiting - before;
    let Ok(provider) = provider::provider(Patience::SWEEPER).await else { return Ok(finished > 0) };
    let asked = sessions::ask(&SpinRedis, ledger, &provider, now, SESSIONS).await?;
    for (order_no, because) in &asked.unanswered {
        let fields = [("order_no", order_no.to_string().into()), ("because", because.as_str().into())];
        log::error("the payment provider does not say; it is asked again", &fields);
    }
    let refunds = refunds::send(&SpinRedis, ledger, &provider, now, REFUNDS).await?;
    for refund in &refunds.untaken {
        let fields = [("order_no", refund.order_no.as_str().into()), ("because", refund.because.as_str().into())];
        log::error("refund not taken by the provider; it is tried again", &fields);
    }
    report.asked += asked.asked;
    report.refunds += refunds.tried;
    Ok(finished + asked.asked + refunds.tried > 0)
}
