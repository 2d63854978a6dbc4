//! Routes the requests of this function, after checking that the order is the caller's.

use domain::{http::routes::Checkout, order::OrderStatus};
use orders::{ledger::order_rows, status::load_order_of};
use platform::{
    auth,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};

use crate::{cancel, pay, refund};

/// Calls the handler of the request's route. An order of another user is `not_found`.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [order_no, _]) = request.route()?;
    let user = auth::user(request).await?.sub;
    let order_no = auth::order_no(order_no).await?;
    let order = match order_rows::load(&SpinLedger::open().await, &order_no).await? {
        Some(row) => row.order,
        None => load_order_of(&SpinRedis, &order_no, &user).await?.order.ok_or_else(auth::order_not_found)?,
    };
    if order.user != user {
        return Err(auth::order_not_found());
    }
    match endpoint {
        Checkout::Pay => pay::post(request, &order).await,
        Checkout::Cancel if order.status == OrderStatus::Waiting => cancel::leave_line(order).await,
        Checkout::Cancel => cancel::post(&order_no).await,
        Checkout::Refund => refund::post(&order_no).await,
    }
}
