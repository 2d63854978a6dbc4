//! `POST /api/orders/:order_no/refund`: requests a refund (E4).

use domain::{
    http::problem::{Code, Problem},
    ids::OrderNo,
    order::OrderStatus,
};
use payments::commands::{self, CommandOutcome};
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};

use crate::outcome::order_or_conflict;

/// Records the refund request in the ledger. The refund is complete when the provider confirms it.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let now = SpinRedis.now().await?;
    let requested = commands::request_refund(&SpinRedis, &SpinLedger::open().await, order_no, now).await?;
    if matches!(&requested, CommandOutcome::Conflict(order) if order.status == OrderStatus::Paid) {
        let detail = "This sale takes no request for a refund now. Ask the shop.";
        return Err(Problem::new(Code::RefundClosed, detail).into());
    }
    Ok(Response::json(202, &order_or_conflict(requested, "refunded")?))
}
