//! Callbacks that wait for an operator: wrong amounts, unknown orders and payments, refunds that came back (E2, E4, I6).

use domain::time::Millis;

use super::{CallbackOutcome, dispatch};
use crate::{
    ledger::{payments, refunds},
    ports::{Redis, Sql, StoreError},
};

/// What came of an operator's wish about a held callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolveOutcome {
    /// Done; where it was applied once more, what came of that.
    Done(CallbackOutcome),
    /// There is no such callback that waits for an operator.
    NotHeld,
    /// It names no payment: there is nothing to give back.
    NoPayment,
    /// Its order was paid with its payment since: it is the order that can be refunded.
    OrderPaid,
}

/// Applies a held callback once more, now that its order may be known. The refund that it says has failed is sent again,
/// although it was confirmed.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn replay<R: Redis, S: Sql>(redis: &R, sql: &S, id: &str, now: Millis) -> Result<ResolveOutcome, StoreError> {
    let Some(callback) = payments::set_outcome_if_held(sql, id, "").await? else { return Ok(ResolveOutcome::NotHeld) };
    if callback.kind == "refund.failed" {
        refunds::reopen(sql, &callback.order_no, &callback.payment, &callback.refund).await?;
    }
    let (outcome, ledger_outcome) = dispatch(redis, sql, &callback, now).await?;
    payments::set_outcome(sql, &callback.id, ledger_outcome).await?;
    Ok(ResolveOutcome::Done(outcome))
}

/// Gives the money of a held callback back to its payer (I6).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refund<S: Sql>(sql: &S, id: &str) -> Result<ResolveOutcome, StoreError> {
    let held = payments::load_held(sql, id).await?;
    let Some(callback) = held.filter(|callback| callback.kind == "payment.succeeded") else {
        return Ok(ResolveOutcome::NotHeld);
    };
    if callback.payment.is_empty() {
        return Ok(ResolveOutcome::NoPayment);
    }
    if payments::set_outcome_if_held(sql, id, payments::REFUNDED_BY_OPERATOR).await?.is_some() {
        return Ok(ResolveOutcome::Done(CallbackOutcome::Changed));
    }
    Ok(payments::load_held(sql, id).await?.map_or(ResolveOutcome::NotHeld, |_| ResolveOutcome::OrderPaid))
}

/// Puts a held callback away: an operator has dealt with it elsewhere.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn dismiss<S: Sql>(sql: &S, id: &str) -> Result<ResolveOutcome, StoreError> {
    let dismissed = payments::set_outcome_if_held(sql, id, "dismissed_by_operator").await?;
    Ok(dismissed.map_or(ResolveOutcome::NotHeld, |_| ResolveOutcome::Done(CallbackOutcome::Changed)))
}
