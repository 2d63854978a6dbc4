//! `POST /api/orders/:order_no/cancel` (E4).

use domain::ids::OrderNo;
use platform::{
    http::{Answer, Failure},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use workflows::payments::commands;

use crate::routes::moved;

/// Cancels an order that waits for money; its units go back on sale at once.
pub async fn post(order_no: &OrderNo) -> Result<Answer, Failure> {
    let now = SpinRedis.now().await?;
    let cancelled = commands::cancel(&SpinRedis, &SpinLedger::open().await, order_no, now).await?;
    Ok(Answer::json(200, &moved(cancelled, "cancelled")?))
}
