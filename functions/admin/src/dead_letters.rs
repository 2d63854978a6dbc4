//! Lists dead letters, puts them back into the queue, and dismisses them (D4).

use domain::{
    api::{
        Page,
        operators::{DismissedLetter, Requeued},
    },
    http::problem::{Code, FieldError, Problem},
    ids::OrderNo,
    order::OrderStatus,
};
use orders::dead_letters::{self, Cursor, RequeueOutcome};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    paging,
    redis::SpinRedis,
};

use crate::call::Outcome;

/// Handles `GET …/dead-letters?before=&limit=`: letters that were not requeued since they last failed come first.
///
/// A page has up to `limit` letters (default and maximum: 200).
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let before = match paging::before(request) {
        None => None,
        Some(text) => {
            let refused = || Problem::invalid(vec![FieldError::new("?before", "must be the next of a page")]);
            Some(Cursor::parse(&text).ok_or_else(refused)?)
        }
    };
    let limit = paging::limit(request, 200)?;
    let found = dead_letters::list(&SpinLedger::open().await, before, limit + 1).await?;
    Ok(Response::json(200, &Page::new(found, limit, |letter| Cursor::of(letter).to_string())))
}

/// Handles `POST …/dead-letters/:order_no/dismiss`: nobody needs to look at it any more.
pub async fn dismiss(order_no: &str) -> Result<Outcome, ApiError> {
    if !dead_letters::dismiss(&SpinLedger::open().await, order_no).await? {
        return Err(not_found("No such dead letter waits for an operator."));
    }
    Ok(Outcome::changed(200, &DismissedLetter { order_no: order_no.to_owned() }))
}

/// Handles `POST …/dead-letters/:order_no/replay`: puts the order back into the queue.
pub async fn requeue(order_no: &str) -> Result<Outcome, ApiError> {
    let unknown = || not_found("There is no such dead letter, or it cannot be read.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    match dead_letters::requeue(&SpinRedis, &SpinLedger::open().await, &order_no).await? {
        RequeueOutcome::Queued => {
            Ok(Outcome::changed(202, &Requeued { order_no: order_no.clone(), status: OrderStatus::Queued }))
        }
        RequeueOutcome::Joined => {
            Ok(Outcome::changed(202, &Requeued { order_no: order_no.clone(), status: OrderStatus::Waiting }))
        }
        RequeueOutcome::Refused(word) => {
            let detail = match word.as_str() {
                "same" => "The order is not failed: it was put back before, or never left.",
                "sold_out" => "Too few units are left for the order: restock first.",
                "limit_reached" => "The buyer has as many units as one person may.",
                _ => "The sale is not loaded: publish it first.",
            };
            Err(Problem::new(Code::StateConflict, detail).into())
        }
        RequeueOutcome::NotFound => Err(unknown()),
    }
}
