//! Applies callbacks of payment providers exactly once (E2, E5, I6).
//!
//! The statement that records a callback decides about it (view `callback_decisions` of the ledger): which payment pays which
//! order is not decided here. A callback that cannot be applied is parked for an operator ([`parked`]).

pub mod disputes;
pub mod parked;
mod refund_results;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use domain::{
    ids::{ActivityId, OrderNo},
    order::OrderStatus,
    time::Millis,
    webhook::ProviderCallback,
};
use orders::{
    ledger::order_rows::OrderRow,
    order_record::OrderFields,
    scripts::{DECLINE, REACQUIRE},
    status::load_order,
    sync::sync_order,
};
use serde::Serialize;
use stores::{
    keys::Keys,
    ledger::clock::Clock,
    ports::{Redis, Sql, StoreError},
};

use crate::{
    commands::session_ended,
    ledger::{
        callback_rows::{self, Callback, Decision, RecordIf, Recorded},
        unprocessed,
    },
};

/// How long [`apply_pending`] works; the callback that has begun is finished.
const ROUND: Duration = Duration::from_secs(1);

pub use crate::ledger::callback_outcomes::{CallbackEffect, CallbackOutcome};

/// What became of a callback that was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receipt {
    /// It is recorded, and [`apply_recorded`] applies it: after the response. If that fails, the sweeper does it.
    Recorded(Box<Recorded>),
    /// The order is queued and not in the ledger yet: the provider should deliver the callback again.
    OrderQueued,
    /// Its signer is not configured and has opened no session of the order.
    NotOfItsOrders,
    /// It is about an order of another app with the same account.
    Foreign,
}

/// Receives a verified callback: one statement of the ledger, and Redis is asked only about an order that the ledger does
/// not have. A signer that `is_configured` may report about all orders, another one about those whose
/// payment session it opened. Of orders that the ledger does not have, those that `is_ours` are recorded: the ledger lost
/// them.
pub async fn receive<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    received: &ProviderCallback,
    is_configured: bool,
    is_ours: impl Fn(&OrderNo) -> bool,
    now: impl Into<Clock>,
) -> Result<Receipt, StoreError> {
    let now = now.into();
    let condition = if is_configured { RecordIf::Known } else { RecordIf::MayHavePaid };
    if let Some(recorded) = callback_rows::record(sql, received, condition, now).await? {
        return Ok(Receipt::Recorded(Box::new(recorded)));
    }
    if !is_configured {
        return Ok(Receipt::NotOfItsOrders);
    }
    let order_no = OrderNo::parse(&received.order_no).ok().filter(is_ours);
    // A refund of the provider's dashboard names no order.
    if order_no.is_none() && !(received.order_no.is_empty() && received.kind == REFUND_FAILED) {
        return Ok(Receipt::Foreign);
    }
    if let Some(order_no) = order_no
        && load_order(redis, &order_no).await?.order.is_some_and(|order| order.status == OrderStatus::Queued)
    {
        return Ok(Receipt::OrderQueued);
    }
    record(sql, received, now).await.map(|recorded| Receipt::Recorded(Box::new(recorded)))
}

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
    apply_recorded(redis, sql, &record(sql, received, now.into()).await?).await
}

async fn record<S: Sql>(sql: &S, received: &ProviderCallback, now: Clock) -> Result<Recorded, StoreError> {
    let recorded = callback_rows::record(sql, received, RecordIf::Always, now).await?;
    recorded.ok_or_else(|| StoreError::Malformed("no callback was written".to_owned()))
}

/// Applies a callback that is recorded. Every step can be repeated.
///
/// # Errors
/// Any [`StoreError`]: the callback may be applied in part.
pub async fn apply_recorded<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    &Recorded { ref callback, now }: &Recorded,
) -> Result<CallbackEffect, StoreError> {
    if callback.outcome == CallbackOutcome::Unprocessed {
        return finish(redis, sql, callback, now).await.map(CallbackOutcome::effect);
    }
    if callback.kind == PAYMENT_SUCCEEDED || callback.outcome.is_early() {
        // The last delivery may have ended between the two.
        apply_early_refunds(redis, sql, callback, now).await?;
    }
    Ok(CallbackEffect::NoChange)
}

const PAYMENT_SUCCEEDED: &str = "payment.succeeded";
const PAYMENT_FAILED: &str = "payment.failed";
const REFUND_SUCCEEDED: &str = "refund.succeeded";
const REFUND_FAILED: &str = "refund.failed";

/// Lets the ledger decide again about a callback without an outcome, and applies it. Returns what was done about it.
async fn retry<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    callback_rows::decide(sql, callback, now).await?;
    finish(redis, sql, callback, now).await
}

/// Does what follows from the ledger's decision about a callback, or decides in its place and records the outcome. Returns
/// it, or that of an early refund.
async fn finish<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    let mut named = None;
    if callback.kind == REFUND_FAILED && callback.order_no.is_empty() && !callback.payment.is_empty() {
        named = Some(callback_rows::name_order(sql, callback).await?);
    }
    let callback = named.as_ref().unwrap_or(callback);
    let decision = callback_rows::load_decision(sql, callback).await?;
    let (mut outcome, has_early_refund) = (decision.outcome, decision.has_early_refund);
    if outcome == CallbackOutcome::Unprocessed {
        outcome = dispatch(redis, sql, callback, decision, now).await?;
        callback_rows::set_outcome(sql, &callback.id, outcome).await?;
    } else if let Some(row) = &decision.order {
        if outcome.effect() != CallbackEffect::Parked {
            // If it fails, the sweeper syncs the order.
            let _ = sync_order(redis, row).await;
        }
        if !has_early_refund {
            return Ok(outcome);
        }
    }
    let is_payment = callback.kind == PAYMENT_SUCCEEDED && outcome.effect() != CallbackEffect::Parked;
    if is_payment || callback.kind == REFUND_SUCCEEDED && outcome.is_early() {
        return Ok(apply_early_refunds(redis, sql, callback, now).await?.unwrap_or(outcome));
    }
    Ok(outcome)
}

/// Applies refunds of a callback's payment that were parked because the provider reported them before it: providers guarantee
/// no order. Returns what was done about the last one.
///
/// It is called when the outcome of the payment or the refund is in the ledger. Of two that run at once, each writes before
/// it reads, so that one of them, or both, find the other. If the process dies before, a sweep applies the refund.
async fn apply_early_refunds<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<Option<CallbackOutcome>, StoreError> {
    let mut applied = None;
    for refund in callback_rows::reopen_early_refunds(sql, Some(callback)).await? {
        applied = Some(Box::pin(retry(redis, sql, &refund, now)).await?);
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
    callback_rows::reopen_early_refunds(sql, None).await?;
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
        match retry(redis, sql, callback, now).await {
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

/// Applies a callback that the ledger alone cannot decide about. Returns the outcome to record.
async fn dispatch<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    Decision { is_overpayment, order, .. }: Decision,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    // The ledger may lack the order of an overpayment: it is erased, or was lost.
    if is_overpayment && callback.kind.starts_with("refund.") {
        return refund_results::of_overpayment(sql, callback, now).await;
    }
    let Some(row) = order else { return Ok(CallbackOutcome::UnknownOrder) };
    let order_no = &row.order.order_no;
    match callback.kind.as_str() {
        PAYMENT_SUCCEEDED => handle_late_payment(redis, sql, callback, &row, now).await,
        REFUND_SUCCEEDED => refund_results::succeeded(redis, sql, callback, row, now).await,
        REFUND_FAILED => refund_results::of_order_failed(sql, callback, &row, now).await,
        "session.ended" => {
            session_ended(redis, sql, order_no, &callback.session).await?;
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

#[derive(Serialize)]
struct ReacquireOptions<'a> {
    paid_at: i64,
    ledger_status: OrderStatus,
    order: OrderFields<'a>,
}

/// Applies a payment that arrived after the order was released (E5). Redis decides whether the units are free, and the
/// ledger can still refuse. While Redis does not answer, the callback waits: no payment is refunded because of that.
///
/// Two callbacks of one order may run at the same time, and either may stop at any point: the row in the ledger decides
/// which was first. The other one syncs the order from that row, which returns units that it reacquired in vain.
async fn handle_late_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    row: &OrderRow,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    let order = &row.order;
    // Redis must have seen the release before it can reacquire the units.
    sync_order(redis, row).await?;
    let keys = Keys::of(order.activity());
    let mut script_keys = vec![keys.named("gate"), keys.order(order.order_no.ulid())];
    script_keys.extend(keys.all(["stats", "holders", "index", "queued"]));
    let options = ReacquireOptions { paid_at: now.0, ledger_status: order.status, order: order.into() };
    let word = REACQUIRE.run_with(redis, script_keys, &options).await?.text()?;
    if word == "later" {
        return Err(StoreError::Rebuilding);
    }
    if word == "taken" {
        match callback_rows::mark_paid(sql, callback, order.status, now).await {
            Ok(Some(row)) => {
                let _ = sync_order(redis, &row).await;
                return Ok(CallbackOutcome::PaidLate);
            }
            // The ledger has no room, or another request changed the order. The next statement distinguishes the two.
            Ok(None) | Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(row) = callback_rows::refund_late_payment(sql, callback, now).await? {
        let _ = sync_order(redis, &row).await;
        return Ok(CallbackOutcome::RefundStarted);
    }
    // Another callback was applied first, possibly with another payment.
    Box::pin(retry(redis, sql, callback, now)).await
}
