//! Routes the requests of this function, after checking that the order is the caller's.

use platform::{
    auth,
    http::{ApiError, Request, Response, method_not_allowed, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use spin_sdk::http::Method;
use workflows::{hot::status::load_order, ledger::orders};

use crate::{cancel, pay, refund};

/// Calls the handler of the request's route. An order of another user is `not_found`.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let ["api", "orders", order_no, action] = request.segments()[..] else { return Err(not_found("No such route.")) };
    if request.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let user = auth::user(request).await?.sub;
    let order_no = auth::order_no(order_no).await?;
    let order = match orders::load(&SpinLedger::open().await, &order_no).await? {
        Some(row) => row.order,
        None => load_order(&SpinRedis, &order_no).await?.1.ok_or_else(auth::order_not_found)?,
    };
    if order.user != user {
        return Err(auth::order_not_found());
    }
    match action {
        "checkout" => pay::post(request, &order).await,
        "cancel" => cancel::post(&order_no).await,
        "refund" => refund::post(&order_no).await,
        _ => Err(not_found("No such route.")),
    }
}
