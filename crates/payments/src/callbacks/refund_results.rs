//! Applies what a provider reports about refunds: the app's, and those made at the provider (E4, I6).

use domain::{order::OrderStatus, time::Millis};
use orders::{ledger::order_rows::OrderRow, sync::sync_order};
use stores::ports::{Redis, Sql, StoreError};

use super::{CallbackOutcome, REFUND_SUCCEEDED};
use crate::ledger::{
    callback_rows::{self, Callback, ReportedFailure},
    refunds::{self, RefundKind, UnconfirmedReason},
};

/// Applies the result of the refund of an overpayment, which no order needs.
pub async fn of_overpayment<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<CallbackOutcome, StoreError> {
    let is_success = callback.kind == REFUND_SUCCEEDED;
    if is_success && refunds::confirm(sql, RefundKind::Overpayments, callback).await? {
        return Ok(CallbackOutcome::OverpaymentBack);
    }
    Ok(match refunds::unconfirmed_reason(sql, RefundKind::Overpayments, callback).await? {
        UnconfirmedReason::NoSuchRefund => CallbackOutcome::WrongAmount,
        _ if !is_success => failed(sql, callback, now).await?,
        UnconfirmedReason::MayHaveFailed => CallbackOutcome::NoChange,
        UnconfirmedReason::AnotherIsConfirmed => CallbackOutcome::UnclearRefund,
    })
}

/// Applies a refund of the order's payment that the provider confirmed.
pub async fn succeeded<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    row: OrderRow,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    let order = &row.order;
    if callback.payment != row.payment {
        // The provider may report the payment later: `apply_early_refunds`.
        return Ok(CallbackOutcome::UnknownPayment);
    }
    if callback.money != order.money {
        return Ok(CallbackOutcome::WrongAmount);
    }
    // The refund was made in the provider's dashboard. It is recorded before the order becomes `refunding`, so that no
    // sweep sends another one.
    if order.status == OrderStatus::Paid {
        match callback_rows::load_reported_failure(sql, callback).await? {
            ReportedFailure::OfThisRefund => return Ok(CallbackOutcome::NoChange),
            ReportedFailure::Possible if !callback.is_reapplied => return Ok(CallbackOutcome::UnclearRefund),
            ReportedFailure::Possible | ReportedFailure::No => {}
        }
        refunds::record_confirmed(sql, callback, now).await?;
        callback_rows::request_refund(sql, &order.order_no, callback_rows::EVER, now).await?;
    }
    if !refunds::confirm(sql, RefundKind::Orders, callback).await? {
        let reason = refunds::unconfirmed_reason(sql, RefundKind::Orders, callback).await?;
        let is_another = reason == UnconfirmedReason::AnotherIsConfirmed;
        return Ok(if is_another { CallbackOutcome::UnclearRefund } else { CallbackOutcome::NoChange });
    }
    match callback_rows::mark_refunded(sql, &order.order_no, now).await? {
        Some(row) => {
            sync_order(redis, &row).await?;
            Ok(CallbackOutcome::Refunded)
        }
        None => Ok(CallbackOutcome::NoChange),
    }
}

/// Applies a refund that failed. It is sent again, unless the provider had confirmed it: the order is then refunded
/// although its buyer has no money back, and the callback is parked for an operator (I6).
pub async fn failed<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<CallbackOutcome, StoreError> {
    if refunds::record_failure(sql, callback, now).await? {
        return Ok(CallbackOutcome::RefundToRetry);
    }
    let was_confirmed = refunds::was_confirmed(sql, callback).await?;
    Ok(if was_confirmed { CallbackOutcome::RefundBounced } else { CallbackOutcome::NoChange })
}
