//! `POST /api/orders/:order_no/refund`: requests a refund (E4).

use domain::ids::OrderNo;
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use workflows::payments::commands;

use crate::outcome::order_or_conflict;

/// Records the refund request in the ledger. The refund is complete when the provider confirms it.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let now = SpinRedis.now().await?;
    let requested = commands::request_refund(&SpinRedis, &SpinLedger::open().await, order_no, now).await?;
    Ok(Response::json(202, &order_or_conflict(requested, "refunded")?))
}
