//! Changes orders for their buyers: cancels and refunds them, and gives more time to pay (E4).

use domain::{
    api::{
        operators::{CancelOrder, ExtendOrder, RefundOrder},
        payments::part_id,
    },
    http::{
        body,
        problem::{Code, FieldError, Problem},
    },
    order::{Order, OrderStatus},
    stripe,
    webhook::PaymentProvider,
};
use operations::commands::documents::ExportedOrder;
use orders::ledger::{
    line_entries,
    order_changes::Canceller,
    order_rows::{self, OrderRow},
};
use payments::commands::{self, CommandOutcome, Decided, RefundDecided};
use platform::{
    auth,
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use sale::line::{self, LeaveOutcome, Leaver};
use serde_json::{Value, json};
use stores::ledger::clock::{self, Clock};

use crate::{
    call::{Call, Outcome},
    orders::{parse_order_no, unknown_order},
};

/// Handles `POST …/orders/:order_no/cancel`: cancels an unpaid order, or takes who waits out of the line. It is no strike.
pub async fn cancel(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let order_no = parse_order_no(call)?;
    let CancelOrder { reason } = body::parse_strict(&call.request.body, CancelOrder::validate)?;
    let ledger = SpinLedger::open().await;
    let cancelled = commands::cancel(&ledger, &order_no, Canceller::Operator, Clock::Ledger).await?;
    if cancelled.outcome == CommandOutcome::NotFound {
        let now = clock::now(&ledger).await?;
        let entry = line_entries::load(&ledger, &order_no, now).await?;
        let entry = entry.filter(|entry| entry.status == OrderStatus::Waiting).ok_or_else(unknown_order)?;
        return remove_from_line(entry, &reason).await;
    }
    outcome(&ledger, 200, cancelled, "cancelled", &json!({ "reason": reason })).await
}

/// Takes an entry out of the line (H1). No operator can move one.
async fn remove_from_line(entry: Order, reason: &str) -> Result<Outcome, ApiError> {
    let why = match line::leave(&SpinRedis, &entry, Leaver::Operator).await? {
        LeaveOutcome::Left(why) => why,
        LeaveOutcome::Unknown => return Err(auth::order_unknown()),
        LeaveOutcome::Offered => {
            let detail = "A unit was offered meanwhile: read the order, then cancel it.";
            return Err(Problem::new(Code::StateConflict, detail).into());
        }
        LeaveOutcome::Absent => return Err(unknown_order()),
    };
    let removed = Order { status: OrderStatus::Cancelled, reason: Some(why), ahead: Some(0), ..entry };
    let row = OrderRow::without_row(removed);
    Ok(Outcome::recorded(&json!({ "reason": reason }), Response::json(200, &ExportedOrder::from(&row))))
}

/// Handles `POST …/orders/:order_no/refund`: gives back all that is left, or a part. The header `Idempotency-Key` names the
/// request for a part: repeated, it is the same part.
pub async fn refund(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let order_no = parse_order_no(call)?;
    let RefundOrder { amount, reason } = body::parse_strict(&call.request.body, RefundOrder::validate)?;
    let part = match amount {
        None => None,
        Some(amount) => {
            let key = call.request.header("idempotency-key").filter(|key| (1..=200).contains(&key.len()));
            let detail =
                "A refund with an amount needs the header Idempotency-Key: 1 to 200 characters, new for each part.";
            let key = key.ok_or_else(|| Problem::new(Code::InvalidRequest, detail))?;
            Some((amount, part_id(&order_no, &key)))
        }
    };
    let ledger = SpinLedger::open().await;
    if let Some(amount) = amount {
        let row = order_rows::load(&ledger, &order_no).await?.ok_or_else(unknown_order)?;
        let step = stripe::step(&row.order.money.currency);
        if row.provider == PaymentProvider::Stripe.as_str() && amount % step != 0 {
            let error = FieldError::new("/amount", format!("must be a multiple of {step}, in which Stripe refunds"));
            return Err(Problem::invalid(vec![error]).into());
        }
    }
    let by_id = part.as_ref().map(|(amount, id)| (*amount, id.as_str()));
    let decided = match commands::refund_by_operator(&ledger, &order_no, by_id, Clock::Ledger).await? {
        RefundDecided::Decided(decided) => *decided,
        RefundDecided::OtherAmount(amount) => {
            let detail = format!("This Idempotency-Key was used for a refund of {amount}.");
            return Err(Problem::new(Code::StateConflict, detail).into());
        }
        RefundDecided::AtMost(amount) => {
            let detail = format!("Of this order at most {amount} can be given back.");
            return Err(Problem::new(Code::StateConflict, detail).into());
        }
    };
    let asked = json!({ "amount": amount, "reason": reason, "part": part.map(|(_, id)| id) });
    outcome(&ledger, 202, decided, "refunded", &asked).await
}

/// Handles `POST …/orders/:order_no/extend`: gives a buyer more time to pay.
pub async fn extend(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let order_no = parse_order_no(call)?;
    let ExtendOrder { seconds, reason } = body::parse_strict(&call.request.body, ExtendOrder::validate)?;
    let ledger = SpinLedger::open().await;
    let extended = commands::extend(&ledger, &order_no, seconds * 1_000, Clock::Ledger).await?;
    outcome(&ledger, 200, extended, "extended", &json!({ "seconds": seconds, "reason": reason })).await
}

/// Syncs the order that a command changed, and returns it; `goal` completes "it cannot be …". The record of the change has
/// what was `asked`.
async fn outcome(
    ledger: &SpinLedger,
    status: u16,
    decided: Decided,
    goal: &str,
    asked: &Value,
) -> Result<Outcome, ApiError> {
    if decided.outcome == CommandOutcome::NotFound {
        return Err(unknown_order());
    }
    let order_no = &decided.outcome.order_or_conflict(goal)?.order_no;
    decided.sync(&SpinRedis).await;
    let row = order_rows::load(ledger, order_no).await?.ok_or_else(unknown_order)?;
    let response = Response::json(status, &ExportedOrder::from(&row));
    Ok(Outcome::recorded(asked, response).only_if(decided.changed.is_some()))
}
