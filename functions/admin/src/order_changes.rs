//! Changes orders for their buyers: cancels them, and gives more time to pay (E4).

use domain::{
    api::operators::{CancelOrder, ExtendOrder},
    http::body,
};
use operations::commands::documents::ExportedOrder;
use orders::ledger::{order_changes::Canceller, order_rows};
use payments::commands::{self, CommandOutcome, Decided};
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde_json::{Value, json};
use stores::ledger::clock::Clock;

use crate::{
    call::{Call, Outcome},
    orders::{parse_order_no, unknown_order},
};

/// Handles `POST …/orders/:order_no/cancel`: cancels an unpaid order. It is no strike.
pub async fn cancel(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let order_no = parse_order_no(call)?;
    let CancelOrder { reason } = body::parse_strict(&call.request.body, CancelOrder::validate)?;
    let ledger = SpinLedger::open().await;
    let cancelled = commands::cancel(&ledger, &order_no, Canceller::Operator, Clock::Ledger).await?;
    outcome(&ledger, cancelled, "cancelled", &json!({ "reason": reason })).await
}

/// Handles `POST …/orders/:order_no/extend`: gives a buyer more time to pay.
pub async fn extend(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let order_no = parse_order_no(call)?;
    let ExtendOrder { seconds, reason } = body::parse_strict(&call.request.body, ExtendOrder::validate)?;
    let ledger = SpinLedger::open().await;
    let extended = commands::extend(&ledger, &order_no, seconds * 1_000, Clock::Ledger).await?;
    outcome(&ledger, extended, "extended", &json!({ "seconds": seconds, "reason": reason })).await
}

/// Syncs the order that a command changed, and returns it; `goal` completes "it cannot be …". The record of the change has
/// what was `asked`.
async fn outcome(ledger: &SpinLedger, decided: Decided, goal: &str, asked: &Value) -> Result<Outcome, ApiError> {
    if decided.outcome == CommandOutcome::NotFound {
        return Err(unknown_order());
    }
    let order_no = &decided.outcome.order_or_conflict(goal)?.order_no;
    decided.sync(&SpinRedis).await;
    let row = order_rows::load(ledger, order_no).await?.ok_or_else(unknown_order)?;
    let response = Response::json(200, &ExportedOrder::from(&row));
    Ok(Outcome::recorded(asked, response).only_if(decided.changed.is_some()))
}
