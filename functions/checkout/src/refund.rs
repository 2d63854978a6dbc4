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
};
use stores::ledger::clock::Clock;

use crate::outcome::sync_later;

/// Records the refund request in the ledger. The refund is complete when the provider confirms it.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let requested = commands::request_refund(&SpinLedger::open().await, order_no, Clock::Ledger).await?;
    if matches!(&requested.outcome, CommandOutcome::Conflict(order) if order.status == OrderStatus::Paid) {
        let detail = "This sale takes no request for a refund now. Ask the shop.";
        return Err(Problem::new(Code::RefundClosed, detail).into());
    }
    let response = Response::json(202, requested.outcome.order_or_conflict("refunded")?);
    sync_later(requested);
    Ok(response)
}
