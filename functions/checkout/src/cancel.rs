//! `POST /api/orders/:order_no/cancel`: cancels an unpaid order (E4).

use domain::ids::OrderNo;
use orders::ledger::order_changes::Canceller;
use payments::commands;
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
};
use stores::ledger::clock::Clock;

use crate::outcome::sync_later;

/// Cancels an order that is pending payment; its units are released at once.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let cancelled = commands::cancel(&SpinLedger::open().await, order_no, Canceller::Buyer, Clock::Ledger).await?;
    let response = Response::json(200, cancelled.outcome.order_or_conflict("cancelled")?);
    sync_later(cancelled);
    Ok(response)
}
