//! `GET /api/orders/:order_no?last=`: shows one order (D5).
//!
//! While Redis has the order, one Redis call serves it; after that, and while Redis is away, the ledger does. That an order
//! does not exist, Redis alone says while it knows; the ledger is asked, too, if the caller will not look again. That the
//! time to pay is over, the ledger alone says.

use std::cell::RefCell;

use domain::{
    http::problem::{Code, FieldError, Problem},
    ids::{OrderNo, UserId},
    order::{Order, OrderStatus},
    time::{Millis, ceil_seconds},
};
use orders::status::{load_from_ledger, load_order_of};
use platform::{
    activity_cache, auth, clock,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
    settings,
};
use stores::{StoreError, recent::Recent};

thread_local! {
    /// The orders that do not exist.
    static MISSING: RefCell<Recent<OrderNo>> = RefCell::default();
}

/// Returns the order to its buyer; to any other caller it is `not_found`.
pub async fn get(request: &Request, order_no: &str) -> Result<Response, ApiError> {
    let (order_no, user) = authenticate(request, order_no).await?;
    let is_last = is_last(request)?;
    let is_missing = |missing: &Recent<_>| !missing.is_empty() && missing.contains(&order_no, clock::now());
    if !is_last && MISSING.with_borrow(is_missing) {
        return Err(auth::order_not_found());
    }
    let (order, now, mut offer_ms) = load(&order_no, &user, is_last).await?;
    let Some(order) = order else {
        MISSING.with_borrow_mut(|missing| missing.record(order_no, clock::now()));
        return Err(auth::order_not_found());
    };
    if user != order.user {
        return Err(auth::order_not_found());
    }
    if order.status == OrderStatus::Waiting && offer_ms == 0 {
        let cached = activity_cache::cached(order.activity()).await;
        offer_ms = cached.map_or(60, |cached| cached.spec.offer_seconds()) * 1_000;
    }
    Ok(order_response(request, &order, now, offer_ms))
}

/// Whether the caller says that it will not look again.
fn is_last(request: &Request) -> Result<bool, Problem> {
    match request.query_param("last").filter(|text| !text.is_empty()) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::invalid(vec![FieldError::new("?last", "must be true or false")])),
    }
}

/// Loads an order, the time, and while it waits in the line the time to pay an offer (ms; 0 if only Redis knew). Without Redis, an order that the
/// ledger does not have may be queued: that is an error.
async fn load(order_no: &OrderNo, user: &UserId, is_last: bool) -> Result<(Option<Order>, Millis, i64), ApiError> {
    let lookup = match load_order_of(&SpinRedis, order_no, user).await {
        Err(error @ StoreError::RedisUnavailable(_)) => {
            let order = load_from_ledger(&SpinLedger::open().await, order_no, clock::now()).await?.ok_or(error)?;
            return Ok((Some(order), clock::now(), 0));
        }
        lookup => lookup?,
    };
    let is_absent = !is_last && lookup.proves_absence(order_no);
    let is_overdue = |order: &Order| order.clone().effective_at(lookup.now).status != order.status;
    let order = match lookup.order {
        None if is_absent => None,
        Some(order) if !is_overdue(&order) => Some(order),
        order => load_from_ledger(&SpinLedger::open().await, order_no, clock::now()).await?.or(order),
    };
    Ok((order, lookup.now, lookup.offer_ms))
}

/// Verifies the request's bearer credential and the order number, without a store. Returns the user of a sign-in token, who
/// may see their own orders, or of the ticket that made the order.
async fn authenticate(request: &Request, order_no: &str) -> Result<(OrderNo, UserId), ApiError> {
    let bearer = request.bearer().unwrap_or_default();
    // Tickets begin with their format version, `1.`; a JSON Web Token begins with the base64 of `{"`.
    if !bearer.starts_with("1.") {
        let user = auth::user(request).await?.sub;
        return Ok((auth::order_no(order_no).await?, user));
    }
    let ticket = settings::load(settings::TICKET_KEYS)
        .await?
        .verify_signature(&bearer)
        .map_err(|error| Problem::new(Code::TicketInvalid, error.to_string()))?;
    let own = ticket.order_no();
    if own.to_string() != order_no {
        return Err(auth::order_not_found());
    }
    Ok((own, ticket.user))
}

fn order_response(request: &Request, order: &Order, now: Millis, offer_ms: i64) -> Response {
    let response = Response::json(200, order).unless_unchanged(request);
    // Back shows what the browser stored without asking, to the next user of the device.
    let mut response = response.header("cache-control", "no-store");
    if let Some(seconds) = retry_after_seconds(order, now, offer_ms) {
        response = response.header("retry-after", seconds.to_string());
    }
    response
}

/// Returns when to poll again, in seconds; `None` if the status will not change without an action.
fn retry_after_seconds(order: &Order, now: Millis, offer_ms: i64) -> Option<i64> {
    match order.status {
        // Near the head often, far from it once a minute; never so rarely that an offer is half over when it is seen.
        OrderStatus::Waiting => {
            Some(order.ahead.map_or(60, |ahead| 5 + ahead / 10).min(60).min((offer_ms / 4_000).max(1)))
        }
        OrderStatus::Queued => Some(ceil_seconds(order.estimated_wait_ms).clamp(1, 10)),
        OrderStatus::PendingPayment => Some(order.pay_by.map_or(5, |pay_by| now.seconds_until(pay_by, 1)).clamp(1, 5)),
        OrderStatus::Refunding => Some(10),
        _ => None,
    }
}
