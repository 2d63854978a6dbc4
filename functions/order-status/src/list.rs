//! `GET /api/orders?before=&limit=`: the caller's orders, newest first (D6).

use domain::{
    ids::OrderNo,
    problem::{FieldError, Problem},
};
use platform::{
    auth, client_limits, clock,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
};
use workflows::ledger::orders;

/// Returns a page of up to `limit` orders (20 by default, 100 at most) that are older than the order `before`.
pub async fn get(request: &Request) -> Result<Response, ApiError> {
    client_limits::signed_in(request).await?;
    let user = auth::user(request).await?.sub;
    let invalid = |name: &str, detail: &str| Problem::invalid(vec![FieldError::new(format!("?{name}"), detail)]);
    let before = request
        .query_param("before")
        .filter(|text| !text.is_empty())
        .map(|text| OrderNo::parse(text).map_err(|_| invalid("before", "must be an order number")))
        .transpose()?;
    let limit = match request.query_param("limit").filter(|text| !text.is_empty()) {
        None => 20,
        Some(text) => text
            .parse::<i64>()
            .ok()
            .filter(|limit| (1..=100).contains(limit))
            .ok_or_else(|| invalid("limit", "must be 1 to 100"))?,
    };
    let now = clock::now();
    let page = orders::list_for_user(&SpinLedger::open().await, &user, before.as_ref(), limit).await?;
    let page: Vec<_> = page.into_iter().map(|order| order.effective_at(now)).collect();
    Ok(Response::json(200, &page).header("cache-control", "private, no-cache"))
}
