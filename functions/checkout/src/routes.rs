//! Which request is answered where; what all of them check first.

use domain::{
    ids::OrderNo,
    order::Order,
    problem::{Code, Problem},
};
use platform::{
    auth,
    http::{Answer, Call, Failure, method_not_allowed, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use spin_sdk::http::Method;
use workflows::{hot::status::status, ledger::orders, payments::commands::CommandOutcome};

use crate::{cancel, pay, refund};

/// Finds the answer. To anybody but its owner, an order does not exist.
pub async fn route(call: &Call) -> Result<Answer, Failure> {
    let ["api", "orders", order_no, what] = call.segments()[..] else { return Err(not_found("No such route.")) };
    if call.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let user = auth::user(call).await?.sub;
    let unknown = || not_found("There is no such order, or it is not yours.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    let order = match orders::load(&SpinLedger::open().await, &order_no).await? {
        Some(entry) => entry.order,
        None => status(&SpinRedis, &order_no).await?.1.ok_or_else(unknown)?,
    };
    if order.user != user {
        return Err(unknown());
    }
    match what {
        "checkout" => pay::post(call, &order).await,
        "cancel" => cancel::post(&order_no).await,
        "refund" => refund::post(&order_no).await,
        _ => Err(not_found("No such route.")),
    }
}

/// The order that moved, or why it did not.
pub fn moved(moved: CommandOutcome, wanted: &str) -> Result<Order, Failure> {
    let detail = match moved {
        CommandOutcome::Done(order) => return Ok(*order),
        CommandOutcome::Conflict(order) => format!("The order is {}: it cannot be {wanted}.", order.status.as_str()),
        CommandOutcome::Unknown => {
            format!("The order is still queued: it cannot be {wanted} yet. Poll until it is pending.")
        }
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}
