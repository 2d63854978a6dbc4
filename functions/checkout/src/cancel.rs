//! `POST /api/orders/:order_no/cancel`: cancels an unpaid order (E4).

use domain::ids::OrderNo;
use payments::commands;
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};

use crate::outcome::order_or_conflict;

/// Cancels an order that is pending payment; its units are released at once.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let now = SpinRedis.now().await?;
    let cancelled = commands::cancel(&SpinRedis, &SpinLedger::open().await, order_no, now).await?;
    Ok(Response::json(200, &order_or_conflict(cancelled, "cancelled")?))
}
