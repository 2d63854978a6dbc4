//! `POST /api/orders/:order_no/cancel`: cancels an unpaid order (E4).

use domain::{
    http::problem::{Code, Problem},
    ids::OrderNo,
    order::{Order, OrderStatus},
};
use orders::ledger::order_changes::Canceller;
use payments::commands;
use platform::{
    auth,
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use sale::line::{self, LeaveOutcome, Leaver};
use stores::ledger::clock::Clock;

use crate::outcome::sync_later;

/// Takes the caller out of the line (H1), at once; the ledger follows. A unit that was offered meanwhile is their order now.
pub async fn leave_line(entry: Order) -> Result<Response, ApiError> {
    match entry.status {
        OrderStatus::Waiting => {}
        OrderStatus::Expired => {
            return Err(Problem::new(Code::StateConflict, "The line has ended with the sale.").into());
        }
        _ => return Ok(Response::json(200, &entry)),
    }
    match line::leave(&SpinRedis, &entry, Leaver::Buyer).await? {
        LeaveOutcome::Offered => {
            let detail = "A unit was offered to you meanwhile: read the order, then pay or cancel it.";
            Err(Problem::new(Code::StateConflict, detail).into())
        }
        LeaveOutcome::Absent => Err(auth::order_not_found()),
        LeaveOutcome::Unknown => Err(auth::order_unknown()),
        LeaveOutcome::Left(reason) => {
            let reason = Some(reason);
            Ok(Response::json(200, &Order { status: OrderStatus::Cancelled, reason, ahead: Some(0), ..entry }))
        }
    }
}

/// Cancels an order that is pending payment; its units are released at once.
pub async fn post(order_no: &OrderNo) -> Result<Response, ApiError> {
    let cancelled = commands::cancel(&SpinLedger::open().await, order_no, Canceller::Buyer, Clock::Ledger).await?;
    let response = Response::json(200, cancelled.outcome.order_or_conflict("cancelled")?);
    sync_later(cancelled);
    Ok(response)
}
