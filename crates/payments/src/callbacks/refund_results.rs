//! Applies what a provider reports about refunds: the app's, and those made at the provider (E4, I6).

use domain::{money::Money, order::OrderStatus, time::Millis};
use orders::{ledger::order_rows::OrderRow, sync::sync_order};
use stores::ports::{Redis, Sql, StoreError};

use super::{CallbackOutcome, REFUND_FAILED, REFUND_SUCCEEDED};
use crate::ledger::{
    callback_rows::{self, Callback},
    partial_refunds,
    refund_parts::{self, KnownPart},
    refunds::{self, Confirmation, RefundKind, ReportedFailure},
};

/// Applies the result of the refund of an overpayment, which no order needs.
pub async fn of_overpayment<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<CallbackOutcome, StoreError> {
    let kind = RefundKind::Overpayments;
    let Some(total) = refunds::load_overpayment(sql, &callback.payment).await? else {
        return Ok(CallbackOutcome::UnknownPayment);
    };
    let callback = &match of_whole(sql, kind, callback, &total).await? {
        Ok(whole) => whole,
        Err(outcome) => return Ok(outcome),
    };
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
    let whole = match refund_parts::find(sql, callback).await? {
        None => of_whole(sql, RefundKind::Orders, callback, &order.money).await?,
        Some(KnownPart::Failed) => return Ok(CallbackOutcome::NoChange),
        Some(_) => {
            refund_parts::confirm(sql, callback).await?;
            if !partial_refunds::is_told_by_charge(callback) {
                partial_refunds::add(sql, RefundKind::Orders, callback).await?;
            }
            if partial_refunds::load_reported(sql, &callback.payment).await? < order.money.amount {
                return Ok(CallbackOutcome::PartRefunded);
            }
            // All of it is back: this was the last report, of a refund of its own.
            Ok(Callback { money: order.money.clone(), refund: String::new(), ..callback.clone() })
        }
    };
    let callback = &match whole {
        Ok(whole) => whole,
        Err(outcome) => return Ok(outcome),
    };
    // The refund was made in the provider's dashboard. It is recorded before the order becomes `refunding`, so that no
    // sweep sends another one.
    if order.status == OrderStatus::Paid {
        match refunds::load_reported_failure(sql, callback).await? {
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

/// Returns a callback as one about all of a payment of `total`, if it is: it names the whole amount, or its refund is the
/// last part, or the app's that failed. Else what to record of it; the part that it reports is kept.
async fn of_whole<S: Sql>(
    sql: &S,
    kind: RefundKind,
    callback: &Callback,
    total: &Money,
) -> Result<Result<Callback, CallbackOutcome>, StoreError> {
    let whole = Callback { money: total.clone(), ..callback.clone() };
    if callback.money == *total {
        return Ok(Ok(whole));
    }
    if callback.money.currency != total.currency || !(1..total.amount).contains(&callback.money.amount) {
        return Ok(Err(CallbackOutcome::WrongAmount));
    }
    let is_own = partial_refunds::is_own(sql, kind, callback).await?;
    let (is_whole, outcome) = if callback.kind == REFUND_FAILED {
        partial_refunds::remove(sql, callback).await?;
        (is_own, CallbackOutcome::WrongAmount)
    } else if partial_refunds::is_told_by_charge(callback) {
        (is_own, CallbackOutcome::PartRefunded)
    } else {
        partial_refunds::add(sql, kind, callback).await?;
        let reported = partial_refunds::load_reported(sql, &callback.payment).await?;
        (reported >= total.amount, CallbackOutcome::PartRefunded)
    };
    Ok(if is_whole { Ok(whole) } else { Err(outcome) })
}

/// Applies a refund of the order's payment that failed.
pub async fn of_order_failed<S: Sql>(
    sql: &S,
    callback: &Callback,
    row: &OrderRow,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    if callback.payment != row.payment {
        return Ok(CallbackOutcome::UnknownPayment);
    }
    match refund_parts::find(sql, callback).await? {
        // The answer, or that to the repeated call, tells of the failure.
        None if refund_parts::may_be_unanswered(sql, callback).await? => return Ok(CallbackOutcome::NoChange),
        None => {}
        Some(KnownPart::Failed) => return Ok(CallbackOutcome::NoChange),
        Some(KnownPart::Confirmed) => return Ok(CallbackOutcome::RefundBounced),
        Some(KnownPart::Current) => {
            partial_refunds::remove(sql, callback).await?;
            refund_parts::record_failure(sql, callback, now.plus(60_000)).await?;
            return Ok(CallbackOutcome::RefundToRetry);
        }
    }
    match of_whole(sql, RefundKind::Orders, callback, &row.order.money).await? {
        Ok(whole) => failed(sql, &whole, now).await,
        Err(outcome) => Ok(outcome),
    }
}

/// Applies a refund that failed. It is sent again, unless the provider had confirmed it: the order is then refunded
/// although its buyer has no money back, and the callback is parked for an operator (I6).
async fn failed<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<CallbackOutcome, StoreError> {
    if refunds::record_failure(sql, callback, now).await? {
        return Ok(CallbackOutcome::RefundToRetry);
    }
    let was_confirmed = refunds::was_confirmed(sql, callback).await?;
    Ok(if was_confirmed { CallbackOutcome::RefundBounced } else { CallbackOutcome::NoChange })
}
