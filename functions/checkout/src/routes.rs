//! Routes the requests of this function, after checking that the order is the caller's.

use domain::{
    api::orders::CancelBody,
    http::{
        body,
        problem::{Code, Problem},
        routes::Checkout,
    },
    order::OrderStatus::{self, Cancelled, Expired, Waiting},
};
use orders::{
    ledger::{line_entries, order_rows},
    status::load_order_of,
};
use platform::{
    auth, clock,
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
    let ledger = SpinLedger::open().await;
    let row = order_rows::load(&ledger, &order_no).await?;
    let is_entry = row.is_none();
    let order = match row {
        Some(row) => row.order,
        None => match load_order_of(&SpinRedis, &order_no, &user).await?.order {
            Some(order) => order,
            None => line_entries::load(&ledger, &order_no, clock::now()).await?.ok_or_else(auth::order_not_found)?,
        },
    };
    if order.user != user {
        return Err(auth::order_not_found());
    }
    let has_left = is_entry && matches!(order.status, Cancelled | Expired);
    match endpoint {
        Checkout::Pay => pay::post(request, &order).await,
        Checkout::Cancel if seen_status(request)?.is_some_and(|seen| seen != order.status && !has_left) => {
            let detail = format!("The order is {} by now: read it, then decide again.", order.status.as_str());
            Err(Problem::new(Code::StateConflict, detail).into())
        }
        // Who has left may say so again.
        Checkout::Cancel if has_left || is_entry && order.status == Waiting => cancel::leave_line(order).await,
        Checkout::Cancel => cancel::post(&order_no).await,
        Checkout::Refund => refund::post(&order_no).await,
    }
}

/// The status that the buyer saw, if they say so.
fn seen_status(request: &Request) -> Result<Option<OrderStatus>, Problem> {
    if request.body.is_empty() { Ok(None) } else { body::parse::<CancelBody>(&request.body).map(|body| body.status) }
}
