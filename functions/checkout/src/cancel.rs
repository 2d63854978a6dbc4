//! `POST /api/orders/:order_no/cancel`: cancels an unpaid order (E4).

use domain::ids::OrderNo;
use payments::commands;
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
};
use stores::ledger::clock::Clock;

use crate::outcome::{order_or_conflict, sync_later};

/// Cancels an order that is pending payment; its units are released at once.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let cancelled = commands::cancel(&SpinLedger::open().await, order_no, Clock::Ledger).await?;
    let response = Response::json(200, &order_or_conflict(&cancelled.outcome, "cancelled")?);
    sync_later(cancelled);
    Ok(response)
}
