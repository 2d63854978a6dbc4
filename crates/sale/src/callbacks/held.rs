//! Callbacks that wait for an operator: wrong amounts, unknown orders and payments (E2, I6).

use stampede_domain::time::Millis;

use super::{Applied, perform};
use crate::{
    ledger::{
        payments::{self, Callback},
        refunds,
    },
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
}

/// Applies a held callback once more, now that its order may be known.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn replay<R: Redis, S: Sql>(redis: &R, sql: &S, id: &str, now: Millis) -> Result<Resolved, StoreError> {
    let Some(callback) = payments::let_go(sql, id, "").await? else { return Ok(Resolved::NotHeld) };
    let (applied, outcome) = perform(redis, sql, &callback, now).await?;
    payments::close(sql, id, outcome).await?;
    Ok(Resolved::Done(applied))
}

/// Gives the money of a held callback back to its payer (I6).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refund<S: Sql>(sql: &S, id: &str, now: Millis) -> Result<Resolved, StoreError> {
    let held = payments::held_one(sql, id).await?;
    let Some(callback) = held.filter(|callback| callback.kind == "payment.succeeded") else {
        return Ok(Resolved::NotHeld);
    };
    let Callback { order_no, payment, money, .. } = &callback;
    if payment.is_empty() {
        return Ok(Resolved::NoPayment);
    }
    refunds::overpaid(sql, order_no, payment, money, now).await?;
    payments::let_go(sql, id, "refunded_by_operator").await?;
    Ok(Resolved::Done(Applied::Changed))
}

/// Puts a held callback away: an operator has dealt with it elsewhere.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn dismiss<S: Sql>(sql: &S, id: &str) -> Result<Resolved, StoreError> {
    let dismissed = payments::let_go(sql, id, "dismissed_by_operator").await?;
    Ok(dismissed.map_or(Resolved::NotHeld, |_| Resolved::Done(Applied::Changed)))
}
