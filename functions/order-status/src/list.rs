//! `GET /api/orders?before=&limit=`: the caller's orders, newest first (D6).

use std::rc::Rc;

use domain::{
    api::Page,
    http::problem::{FieldError, Problem},
    ids::ActivityId,
};
use orders::order_list;
use platform::{
    auth,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    paging,
    redis::SpinRedis,
    single_flight::Cached,
};
use sale::ledger::activities;
use stores::ledger::clock::Clock;

thread_local! {
    static LATELY_ON_SALE: Rc<Cached<Rc<Vec<ActivityId>>>> = Rc::default();
}

/// Returns a page of up to `limit` orders (20 by default, 100 at most) that are older than the order `before`. The
/// header `x-unread-activities` names the activities whose queued orders could not be read.
pub async fn get(request: &Request) -> Result<Response, ApiError> {
    let user = auth::user(request).await?.sub;
    let invalid = || Problem::invalid(vec![FieldError::new("?before", "must be an order number")]);
    let before = match request.query_param("before").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(auth::issued_order_no(text).await?.ok_or_else(invalid)?),
    };
    let limit = paging::number(request, "limit", 100)?.unwrap_or(20);
    let ledger = SpinLedger::open().await;
    let fetch = async || activities::list_lately_on_sale(&ledger, Clock::Ledger).await.map(Rc::new);
    let activities = LATELY_ON_SALE.with(Rc::clone).get_or_fetch(fetch).await?;
    let page = order_list::Page { before: before.as_ref(), limit: limit + 1 };
    let (found, unread) = order_list::list(&SpinRedis, &ledger, &activities, &user, page, Clock::Ledger).await?;
    let unread: Vec<_> = unread.iter().map(ActivityId::as_str).collect();
    let response = Response::json(200, &Page::new(found, limit, |order| order.order_no.to_string()));
    Ok(if unread.is_empty() { response } else { response.header("x-unread-activities", unread.join(" ")) })
}
