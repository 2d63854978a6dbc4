//! Applies callbacks of payment providers exactly once (E2, E5, I6).
//!
//! Each callback is recorded in the ledger before it is applied. One that cannot be applied is parked for an operator
//! ([`parked`]).

pub mod parked;
mod refund_results;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use domain::{
    ids::{ActivityId, OrderNo},
    order::{Order, OrderStatus},
    time::Millis,
    webhook::ProviderCallback,
};
use orders::{
    ledger::order_rows::{self, OrderRow},
    order_record::OrderFields,
    scripts::{DECLINE, REACQUIRE},
    sync::sync_order,
};
use serde::Serialize;
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
};

use crate::{
    commands::session_ended,
    ledger::{
        callback_rows::{self, Callback},
        refunds, unprocessed,
    },
};

/// How long [`apply_pending`] works; the callback that has begun is finished.
const ROUND: Duration = Duration::from_secs(1);

pub use crate::ledger::callback_outcomes::{CallbackEffect, CallbackOutcome};

/// Records a callback and applies it exactly once. Every step after recording can be repeated, by the provider's next
/// delivery or by the sweeper.
///
/// # Errors
/// Any [`StoreError`]: the callback may be recorded and applied in part. The provider should deliver it again.
pub async fn apply<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    received: &ProviderCallback,
    now: Millis,
) -> Result<CallbackEffect, StoreError> {
    let callback = callback_rows::record_callback(sql, received, now).await?;
    if callback.outcome == CallbackOutcome::Unprocessed {
        return finish(redis, sql, &callback, now).await.map(CallbackOutcome::effect);
    }
    if callback.kind == PAYMENT_SUCCEEDED || callback.outcome.is_early() {
        // The last delivery may have ended between the two.
        apply_early_refunds(redis, sql, &callback, now).await?;
    }
    Ok(CallbackEffect::NoChange)
}

/// Applies a callback and records what was done about it. Returns that.
async fn finish<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    let outcome = dispatch(redis, sql, callback, now).await?;
    if outcome == CallbackOutcome::Paid {
        // The statement that paid the order recorded it.
        return Ok(outcome);
    }
    callback_rows::set_outcome(sql, &callback.id, outcome).await?;
    let is_parked_refund = callback.kind == REFUND_SUCCEEDED && outcome.is_early();
    let is_payment = callback.kind == PAYMENT_SUCCEEDED && outcome.effect() != CallbackEffect::Parked;
    if !is_parked_refund && !is_payment {
        return Ok(outcome);
    }
    Ok(apply_early_refunds(redis, sql, callback, now).await?.unwrap_or(outcome))
}

const PAYMENT_SUCCEEDED: &str = "payment.succeeded";
const PAYMENT_FAILED: &str = "payment.failed";
const REFUND_SUCCEEDED: &str = "refund.succeeded";
const REFUND_FAILED: &str = "refund.failed";

/// Applies refunds of a callback's payment that were parked because the provider reported them before it: providers guarantee
/// no order. Returns what was done about the last one.
///
/// It is called when the outcome of the payment or the refund is in the ledger. Of two that run at once, each writes before
/// it reads, so that one of them, or both, find the other. If the process dies before, the next delivery of either applies
/// the refund, or an operator finds it parked.
async fn apply_early_refunds<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<Option<CallbackOutcome>, StoreError> {
    let mut applied = None;
    for refund in callback_rows::load_early_refunds(sql, callback).await? {
        let outcome = Box::pin(dispatch(redis, sql, &refund, now)).await?;
        callback_rows::set_outcome(sql, &refund.id, outcome).await?;
        applied = Some(outcome);
    }
    Ok(applied)
}

/// What [`apply_pending`] did.
#[derive(Debug, Default)]
pub struct AppliedCallbacks {
    /// How many it applied.
    pub applied: usize,
    /// How many it applied, tried or skipped.
    pub visited: usize,
    /// Ids of those that could not be applied, with the activity of their order.
    pub failures: Vec<(String, Option<ActivityId>, StoreError)>,
}

/// Applies up to `limit` callbacks that are due at `now`. After a second it leaves the rest to the next call, so that its
/// caller can renew a lease.
///
/// One that cannot be applied waits, longer after each failure, so that others come first. Those of an activity that is being
/// rebuilt, that a store fails on, or that is in `stuck`, wait for the next sweep.
///
/// # Errors
/// [`StoreError`] of the ledger, on loading the callbacks or deferring them.
pub async fn apply_pending<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    limit: i64,
    stuck: &BTreeSet<ActivityId>,
) -> Result<AppliedCallbacks, StoreError> {
    let due = unprocessed::load_due(sql, now, limit).await?;
    let started = Instant::now();
    let mut result = AppliedCallbacks::default();
    let (mut stuck, mut skipped) = (stuck.clone(), Vec::new());
    for callback in &due {
        let activity = OrderNo::parse(&callback.order_no).ok().map(|order_no| order_no.activity().clone());
        // Also if the time is up: all callbacks of the activity make way for those of others.
        if activity.as_ref().is_some_and(|activity| stuck.contains(activity)) {
            skipped.push(callback.id.as_str());
            continue;
        }
        if started.elapsed() > ROUND {
            continue;
        }
        sql.forget_timeouts();
        match finish(redis, sql, callback, now).await {
            Ok(_) => result.applied += 1,
            Err(StoreError::Rebuilding) => skipped.push(&callback.id),
            Err(error) => {
                stuck.extend(activity.clone());
                result.failures.push((callback.id.clone(), activity, error));
            }
        }
    }
    sql.forget_timeouts();
    let failed: Vec<&str> = result.failures.iter().map(|(id, ..)| id.as_str()).collect();
    unprocessed::defer(sql, &failed, &skipped, now).await?;
    result.visited = result.applied + failed.len() + skipped.len();
    Ok(result)
}

async fn dispatch<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    if callback.kind == REFUND_FAILED && callback.order_no.is_empty() && !callback.payment.is_empty() {
        let named = callback_rows::name_order(sql, callback).await?;
        return match named.order_no.is_empty() {
            true => Ok(CallbackOutcome::UnknownOrder),
            false => Box::pin(dispatch(redis, sql, &named, now)).await,
        };
    }
    // The ledger may lack the order of an overpayment: it is erased, or was lost.
    if callback.kind.starts_with("refund.") && refunds::is_overpayment(sql, callback).await? {
        return refund_results::of_overpayment(sql, callback, now).await;
    }
    let Ok(order_no) = OrderNo::parse(&callback.order_no) else { return Ok(CallbackOutcome::UnknownOrder) };
    let Some((row, is_paid, has_early_refund)) = callback_rows::load_order_of(sql, &order_no, &callback.id).await?
    else {
        return Ok(CallbackOutcome::UnknownOrder);
    };
    if is_paid {
        sync_order(redis, &row).await?;
        if has_early_refund {
            apply_early_refunds(redis, sql, callback, now).await?;
        }
        return Ok(CallbackOutcome::Paid);
    }
    // Another provider than the order's may have an overpayment.
    if ![&row.provider, &callback.provider].into_iter().any(String::is_empty)
        && row.provider != callback.provider
        && !refunds::is_overpayment(sql, callback).await?
    {
        return Ok(CallbackOutcome::WrongProvider);
    }
    match callback.kind.as_str() {
        PAYMENT_SUCCEEDED => handle_payment(redis, sql, callback, row, now).await,
        REFUND_SUCCEEDED => refund_results::succeeded(redis, sql, callback, row, now).await,
        REFUND_FAILED if callback.payment != row.payment => Ok(CallbackOutcome::UnknownPayment),
        REFUND_FAILED if callback.money != row.order.money => Ok(CallbackOutcome::WrongAmount),
        REFUND_FAILED => refund_results::failed(sql, callback, now).await,
        "session.ended" => {
            session_ended(redis, sql, &order_no, &callback.session).await?;
            Ok(CallbackOutcome::SessionEnded)
        }
        // The buyer may try again until the payment deadline.
        PAYMENT_FAILED => {
            let key = Keys::of(order_no.activity()).order(order_no.ulid());
            // It tells the buyer only: without Redis the callback counts all the same.
            let _ = DECLINE.run(redis, vec![key], vec![now.0.to_string().into()]).await;
            Ok(CallbackOutcome::NoChange)
        }
        _ => Ok(CallbackOutcome::NoChange),
    }
}

async fn handle_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    row: OrderRow,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    // This payment is being refunded to its payer: it pays no order, even if the callback is delivered again.
    if refunds::is_overpayment(sql, callback).await? {
        return Ok(CallbackOutcome::GivenBack);
    }
    let order = &row.order;
    if callback.money != order.money {
        return Ok(CallbackOutcome::WrongAmount);
    }
    match order.status {
        OrderStatus::PendingPayment => match callback_rows::mark_paid(sql, callback, order.status, now).await? {
            Some(row) => {
                sync_order(redis, &row).await?;
                apply_early_refunds(redis, sql, callback, now).await?;
                Ok(CallbackOutcome::Paid)
            }
            // Another request changed the order between the two statements: read it again.
            None => match order_rows::load(sql, &order.order_no).await? {
                Some(row) if row.order.status != OrderStatus::PendingPayment => {
                    Box::pin(handle_payment(redis, sql, callback, row, now)).await
                }
                _ => Err(StoreError::LedgerUnavailable("an order changed while it was paid".to_owned())),
            },
        },
        OrderStatus::Cancelled | OrderStatus::Expired => handle_late_payment(redis, sql, callback, order, now).await,
        _ if row.payment == callback_rows::LOST_PAYMENT => restore_payment_id(redis, sql, callback, order, now).await,
        // The order was paid with another payment: the buyer has paid twice, and this payment is refunded (I6).
        _ if row.payment != callback.payment => refund_overpayment(sql, callback, now).await,
        // Payments without an id cannot be told apart.
        _ if callback.payment.is_empty() => Ok(CallbackOutcome::PaidTwice),
        _ => Ok(CallbackOutcome::NoChange),
    }
}

/// Stores the payment id of an order whose id was lost with a ledger, so that a refund of it can be sent. The provider
/// delivers the callback again for this.
async fn restore_payment_id<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    if callback.payment.is_empty() {
        return Ok(CallbackOutcome::UnknownPayment);
    }
    if callback_rows::restore_payment_id(sql, callback).await? {
        return Ok(CallbackOutcome::PaymentNamed);
    }
    // Another callback was applied first, possibly with another payment.
    match order_rows::load(sql, &order.order_no).await? {
        Some(row) => Box::pin(handle_payment(redis, sql, callback, row, now)).await,
        None => Err(StoreError::LedgerUnavailable("an order vanished while it was paid".to_owned())),
    }
}

/// Records a refund of a payment that no order needs; the sweeper sends it. Without a payment id it cannot be sent, and
/// the callback is parked for an operator.
async fn refund_overpayment<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<CallbackOutcome, StoreError> {
    if callback.payment.is_empty() {
        return Ok(CallbackOutcome::PaidTwice);
    }
    refunds::record_overpayment(sql, callback, now).await?;
    Ok(CallbackOutcome::OverpaymentRefunded)
}

#[derive(Serialize)]
struct ReacquireOptions<'a> {
    paid_at: i64,
    ledger_status: OrderStatus,
    order: OrderFields<'a>,
}

/// Applies a payment that arrived after the order was released (E5). Redis decides whether the units are free, and the
/// ledger can still refuse.
///
/// Two callbacks of one order may run at the same time, and either may stop at any point: the row in the ledger decides
/// which was first. The other one syncs the order from that row, which returns units that it reacquired in vain.
async fn handle_late_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    // Redis must have seen the release before it can reacquire the units.
    load_and_sync(redis, sql, &order.order_no).await?;
    let keys = Keys::of(order.activity());
    let script_keys = vec![
        keys.named("gate"),
        keys.order(order.order_no.ulid()),
        keys.stock(&order.sku),
        keys.holders(&order.sku),
        keys.named("stats"),
        keys.named("index"),
    ];
    let options = ReacquireOptions { paid_at: now.0, ledger_status: order.status, order: order.into() };
    let word = REACQUIRE.run_with(redis, script_keys, &options).await?.text()?;
    if word == "later" {
        return Err(StoreError::Rebuilding);
    }
    if word == "taken" {
        match callback_rows::mark_paid(sql, callback, order.status, now).await {
            Ok(Some(row)) => {
                sync_order(redis, &row).await?;
                return Ok(CallbackOutcome::PaidLate);
            }
            // The ledger has no room, or another request changed the order. The next statement distinguishes the two.
            Ok(None) | Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let refunding = callback_rows::refund_late_payment(sql, callback, now).await?;
    load_and_sync(redis, sql, &order.order_no).await?;
    match (refunding, order_rows::load(sql, &order.order_no).await?) {
        (Some(_), _) => Ok(CallbackOutcome::RefundStarted),
        // Another callback was applied first, possibly with another payment.
        (None, Some(row)) if !matches!(row.order.status, OrderStatus::Cancelled | OrderStatus::Expired) => {
            Box::pin(handle_payment(redis, sql, callback, row, now)).await
        }
        _ => Err(StoreError::LedgerUnavailable("an order changed while it was paid".to_owned())),
    }
}

/// Syncs an order from its current row in the ledger.
async fn load_and_sync<R: Redis, S: Sql>(redis: &R, sql: &S, order_no: &OrderNo) -> Result<(), StoreError> {
    match order_rows::load(sql, order_no).await? {
        Some(row) => sync_order(redis, &row).await,
        None => Ok(()),
    }
}
