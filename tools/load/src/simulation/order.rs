//! Acts as the buyer of one order: polls it, then pays, cancels or leaves.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use serde_json::json;

use super::{
    context::RunContext,
    observations::{Confirmation, ObservedOrder},
    payments::Payer,
    plan::Intent,
    status_poller::StatusPoller,
};
use crate::{
    http::Call,
    meter::Step,
    wire::{Order, OrderStatus},
};

/// How long after the pay timeout a buyer still tries to pay. Late payments must be tested, but the tries must end.
const LATE_PAYMENT_WINDOW: Duration = Duration::from_secs(5);

/// Deadlines of the app may be rounded to whole seconds.
const DEADLINE_ROUNDING: Duration = Duration::from_secs(1);

/// Polls an order and acts on it until its buyer has nothing more to do.
/// The order was created between `due` and `accepted`.
pub async fn drive_order(
    run: &RunContext,
    index: usize,
    order_no: String,
    due: Instant,
    accepted: Instant,
) -> ObservedOrder {
    let visit = &run.visits[index];
    let pay_timeout = Duration::from_secs(run.options.pay_timeout.into());
    let sku = run.activity.skus[visit.sku].clone();
    let mut order = ObservedOrder {
        safe_until: run.since_start(due) + pay_timeout.saturating_sub(DEADLINE_ROUNDING),
        intent: visit.intent,
        ..ObservedOrder::new(order_no, run.user_id(visit.buyer), sku, visit.quantity, run.since_start(accepted))
    };
    let mut poller = StatusPoller::new(run, index);
    let deadline = accepted + run.options.retry_timeout();
    poller.poll_until(&mut order, deadline, |status| status != OrderStatus::Queued).await;
    if order.status() == Some(OrderStatus::PendingPayment) {
        let user_token = &run.user_tokens[visit.buyer];
        match visit.intent {
            Intent::Pay | Intent::Open => {
                let payment_deadline = deadline.min(accepted + pay_timeout + LATE_PAYMENT_WINDOW);
                Payer { run, user_token, payment_deadline, deadline }
                    .pay(visit.payment_behaviour, &mut order, &mut poller)
                    .await;
            }
            Intent::Cancel => order.cancellation = cancel(run, &order.order_no, user_token).await,
            Intent::Leave => {}
        }
    }
    order
}

async fn cancel(run: &RunContext, order_no: &str, user_token: &HeaderValue) -> Confirmation {
    let deadline = Instant::now() + run.options.retry_timeout();
    let call = Call::post(format!("/api/orders/{order_no}/cancel"), &json!({})).with_authorization(user_token);
    match run.app.send_with_retry(Step::Cancel, &call, deadline).await {
        Ok(response) if response.parse::<Order>().is_ok_and(|order| order.status == OrderStatus::Cancelled) => {
            Confirmation::Yes
        }
        Ok(_) | Err(_) => Confirmation::Unknown,
    }
}
