//! Callbacks parked for an operator: wrong amounts or providers, unknown orders or payments, confirmed refunds that failed
//! later (E2, E4, I6).

use domain::time::Millis;
use stores::ports::{Redis, Sql, StoreError};

use super::{CallbackEffect, CallbackOutcome, PAYMENT_SUCCEEDED, REFUND_FAILED, apply_early_refunds, retry};
use crate::ledger::{callback_rows, refunds};

/// Result of an operator's decision about a parked callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolveOutcome {
    /// Done, with the effect of the callback if it was applied again.
    Done(CallbackEffect),
    /// No parked callback has this id, or it cannot be resolved in this way.
    NotParked,
    /// The callback has no payment id, so there is nothing to refund.
    NoPayment,
    /// The order was paid with this payment meanwhile, or may have been, since its payment id was lost: apply the callback
    /// again, and refund the payment at the provider instead.
    OrderPaid,
}

/// Applies a parked callback again, since its order may be known now. If it reports a failed refund, that refund is sent
/// again although it was confirmed. If it reports a refund that may have failed, that refund counts.
///
/// # Errors
/// Any [`StoreError`]: the callback may be applied in part; the sweeper completes it.
pub async fn reapply<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    id: &str,
    now: Millis,
) -> Result<ResolveOutcome, StoreError> {
    let Some(mut callback) = callback_rows::set_outcome_if_parked(sql, id, CallbackOutcome::Unprocessed).await? else {
        return Ok(ResolveOutcome::NotParked);
    };
    callback.is_reapplied = true;
    if callback.kind == REFUND_FAILED {
        if callback.order_no.is_empty() {
            callback = callback_rows::name_order(sql, &callback).await?;
        }
        refunds::reopen(sql, &callback).await?;
    }
    let outcome = retry(redis, sql, &callback, now).await?;
    Ok(ResolveOutcome::Done(outcome.effect()))
}

/// Refunds the payment of a parked callback (I6), unless the provider has reported that its money is back.
///
/// # Errors
/// Any [`StoreError`]: the refund may or may not be recorded; the call can be repeated.
pub async fn refund<R: Redis, S: Sql>(redis: &R, sql: &S, id: &str, now: Millis) -> Result<ResolveOutcome, StoreError> {
    let parked = callback_rows::load_parked(sql, id).await?;
    let Some(callback) = parked.filter(|callback| callback.kind == PAYMENT_SUCCEEDED) else {
        return Ok(ResolveOutcome::NotParked);
    };
    if callback.payment.is_empty() {
        return Ok(ResolveOutcome::NoPayment);
    }
    if let Some(callback) = callback_rows::set_outcome_if_parked(sql, id, CallbackOutcome::RefundedByOperator).await? {
        apply_early_refunds(redis, sql, &callback, now).await?;
        return Ok(ResolveOutcome::Done(CallbackEffect::Changed));
    }
    Ok(callback_rows::load_parked(sql, id).await?.map_or(ResolveOutcome::NotParked, |_| ResolveOutcome::OrderPaid))
}

/// Dismisses a parked callback that an operator has resolved elsewhere.
///
/// # Errors
/// `LedgerUnavailable`: the callback may or may not be dismissed; the call can be repeated.
pub async fn dismiss<S: Sql>(sql: &S, id: &str) -> Result<ResolveOutcome, StoreError> {
    let dismissed = callback_rows::set_outcome_if_parked(sql, id, CallbackOutcome::DismissedByOperator).await?;
    Ok(dismissed.map_or(ResolveOutcome::NotParked, |_| ResolveOutcome::Done(CallbackEffect::Changed)))
}
