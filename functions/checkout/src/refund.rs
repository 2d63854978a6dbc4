//! `POST /api/orders/:order_no/refund` (E4).

use domain::ids::OrderNo;
use platform::{
    http::{Answer, Failure},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use workflows::payments::commands;

use crate::routes::moved;

/// Asks for the money back: durable work, done when the provider confirms.
pub async fn post(order_no: &OrderNo) -> Result<Answer, Failure> {
    let now = SpinRedis.now().await?;
    let asked = commands::request_refund(&SpinRedis, &SpinLedger::open().await, order_no, now).await?;
    Ok(Answer::json(202, &moved(asked, "refunded")?))
}
