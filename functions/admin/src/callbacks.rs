//! Lists and resolves parked payment callbacks, and lists unconfirmed refunds (E2, E4).
//!
//! [`parked`] lists why a callback is parked.

use domain::{
    api::Page,
    http::problem::{Code, Problem},
};
use operations::commands::documents::ResolvedCallback;
use payments::{
    callbacks::parked::{self, ResolveOutcome},
    ledger::{
        callback_rows,
        refunds::{self, Refund},
    },
};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    paging,
    redis::SpinRedis,
};
use stores::ledger::clock;

use crate::call::Outcome;

/// Maximum and default number of callbacks in a page.
const MAX_PAGE: i64 = 200;

/// Handles `GET …/callbacks?before=&limit=`: parked callbacks, newest first.
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let before = paging::before(request).unwrap_or_default();
    let limit = paging::limit(request, MAX_PAGE)?;
    let found = callback_rows::list_parked(&SpinLedger::open().await, &before, limit + 1).await?;
    Ok(Response::json(200, &Page::new(found, limit, |callback| callback.id.clone())))
}

/// Handles `GET …/refunds?before=&limit=`: unconfirmed refunds, those of orders first, the latest of each sale first.
pub async fn refunds(request: &Request) -> Result<Response, ApiError> {
    let before = paging::before(request).unwrap_or_default();
    let limit = paging::limit(request, MAX_PAGE)?;
    let found = refunds::list_unconfirmed(&SpinLedger::open().await, &before, limit + 1).await?;
    Ok(Response::json(200, &Page::new(found, limit, Refund::cursor)))
}

/// Handles `POST …/callbacks/:id/replay` (applies the callback again), `/refund` and `/dismiss`.
pub async fn resolve(id: &str, action: &str) -> Result<Outcome, ApiError> {
    let ledger = SpinLedger::open().await;
    let now = clock::now(&ledger).await?;
    let resolved = match action {
        "replay" => parked::reapply(&SpinRedis, &ledger, id, now).await?,
        "refund" => parked::refund(&SpinRedis, &ledger, id, now).await?,
        _ => parked::dismiss(&ledger, id).await?,
    };
    let detail = match resolved {
        ResolveOutcome::Done(outcome) => {
            return Ok(Outcome::changed(200, &ResolvedCallback { id: id.to_owned(), outcome }));
        }
        ResolveOutcome::NotParked => return Err(not_found("No such callback waits for an operator.")),
        ResolveOutcome::OrderPaid => {
            "Its payment has paid its order since, or may have: replay the callback. If its buyer is to get the money \
             back, refund the payment at the provider."
        }
        ResolveOutcome::NoPayment => "The callback names no payment: there is nothing to give back. Dismiss it.",
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}
