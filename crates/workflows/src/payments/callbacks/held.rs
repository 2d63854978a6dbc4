//! Callbacks that wait for an operator: wrong amounts, unknown orders and payments, refunds that came back (E2, E4, I6).

use domain::time::Millis;

use super::{Applied, perform};
use crate::{
    ledger::{payments, refunds},
    ports::{Redis, Sql, StoreError},
};

/// What came of an operator's wish about a held callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// Done; where it was applied once more, what came of that.
    Done(Applied),
    /// There is no such callback that waits for an operator.
    NotHeld,
    /// It names no payment: there is nothing to give back.
    NoPayment,
    /// Its order was paid with its payment since: it is the order that can be refunded.
    Paid,
}

/// Applies a held callback once more, now that its order may be known. The refund that it says has failed is sent again,
/// although it was confirmed.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn replay<R: Redis, S: Sql>(redis: &R, sql: &S, id: &str, now: Millis) -> Result<Resolved, StoreError> {
    let Some(callback) = payments::let_go(sql, id, "").await? else { return Ok(Resolved::NotHeld) };
    if callback.kind == "refund.failed" {
        refunds::reopen(sql, &callback.order_no, &callback.payment, &callback.refund).await?;
    }
    let (applied, outcome) = perform(redis, sql, &callback, now).await?;
    payments::close(sql, &callback.id, outcome).await?;
    Ok(Resolved::Done(applied))
}

/// Gives the money of a held callback back to its payer (I6).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refund<S: Sql>(sql: &S, id: &str) -> Result<Resolved, StoreError> {
    let held = payments::held_one(sql, id).await?;
    let Some(callback) = held.filter(|callback| callback.kind == "payment.succeeded") else {
        return Ok(Resolved::NotHeld);
    };
    if callback.payment.is_empty() {
        return Ok(Resolved::NoPayment);
    }
    if payments::let_go(sql, id, payments::GIVEN_BACK).await?.is_some() {
        return Ok(Resolved::Done(Applied::Changed));
    }
    Ok(payments::held_one(sql, id).await?.map_or(Resolved::NotHeld, |_| Resolved::Paid))
}

/// Puts a held callback away: an operator has dealt with it elsewhere.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn dismiss<S: Sql>(sql: &S, id: &str) -> Result<Resolved, StoreError> {
    let dismissed = payments::let_go(sql, id, "dismissed_by_operator").await?;
    Ok(dismissed.map_or(Resolved::NotHeld, |_| Resolved::Done(Applied::Changed)))
}
