//! Applies what a provider reports about refunds: the app's, and those made at the provider (E4, I6).

use domain::{order::OrderStatus, time::Millis};
use orders::{ledger::order_rows::OrderRow, sync::sync_order};
use stores::ports::{Redis, Sql, StoreError};

use super::{CallbackOutcome, REFUND_SUCCEEDED};
use crate::ledger::{
    callback_rows::{self, Callback, ReportedFailure},
    refunds::{self, Confirmation, RefundKind},
};

/// Applies the result of the refund of an overpayment, which no order needs.
pub async fn of_overpayment<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<CallbackOutcome, StoreError> {
    let kind = RefundKind::Overpayments;
    let confirmation = match callback.kind == REFUND_SUCCEEDED {
        true => refunds::confirm(sql, kind, callback).await?,
        false => refunds::unconfirmed_reason(sql, kind, callback).await?,
    };
    Ok(match confirmation {
        Confirmation::Confirmed => CallbackOutcome::OverpaymentBack,
        Confirmation::NoSuchRefund => CallbackOutcome::WrongAmount,
        _ if callback.kind != REFUND_SUCCEEDED => failed(sql, callback, now).await?,
        Confirmation::MayHaveFailed => CallbackOutcome::NoChange,
        Confirmation::AnotherIsConfirmed => CallbackOutcome::UnclearRefund,
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
    match refunds::confirm(sql, RefundKind::Orders, callback).await? {
        Confirmation::Confirmed => {}
        Confirmation::AnotherIsConfirmed => return Ok(CallbackOutcome::UnclearRefund),
        Confirmation::NoSuchRefund | Confirmation::MayHaveFailed => return Ok(CallbackOutcome::NoChange),
    }
    match callback_rows::mark_refunded(sql, &order.order_no, now).await? {
        Some(row) => {
            // If it fails, the sweeper syncs the order.
            let _ = sync_order(redis, &row).await;
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
