//! Acts as the buyer of one order: waits for it, then pays, cancels or leaves.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use serde_json::json;

use super::{
    context::RunContext,
    line::wait_in_line,
    observations::{Confirmation, ObservedOrder, safe_until},
    payments::Payer,
    plan::Intent,
    reserve::Accepted,
    status_poller::StatusPoller,
};
use crate::{
    http::Call,
    meter::Step,
    wire::{Order, OrderStatus},
};

/// How long after the pay timeout a buyer still tries to pay. Late payments must be tested, but the tries must end.
const LATE_PAYMENT_WINDOW: Duration = Duration::from_secs(5);

/// Polls an order and acts on it until its buyer has nothing more to do.
pub async fn drive_order(run: &RunContext, index: usize, accepted: Accepted) -> ObservedOrder {
    let visit = &run.visits[index];
    let mut order = observe(run, index, &accepted);
    let mut poller = StatusPoller::new(run, index);
    if visit.is_robot {
        poller = poller.with_user_token(); // It has many tickets.
    }
    let (mut owned_at, mut pay_timeout) = (accepted.at, run.options.pay_timeout());
    if accepted.order.status == OrderStatus::Waiting {
        wait_in_line(run, index, &mut order, &mut poller).await;
        (owned_at, pay_timeout) = (Instant::now(), run.options.offer_timeout());
    }
    let deadline = owned_at + run.options.retry_timeout();
    if order.status() == Some(OrderStatus::Queued) {
        poller.poll_until(&mut order, deadline, |status| status != OrderStatus::Queued).await;
    }
    if order.status() == Some(OrderStatus::PendingPayment) {
        let user_token = &run.user_tokens[visit.buyer];
        match visit.intent {
            Intent::Pay | Intent::Open => {
                let payment_deadline = deadline.min(owned_at + pay_timeout + LATE_PAYMENT_WINDOW);
                Payer { run, user_token, payment_deadline, deadline }
                    .pay(visit.payment_behaviour, &mut order, &mut poller)
                    .await;
            }
            Intent::Cancel => cancel(run, &mut order, user_token).await,
            Intent::Leave => {}
        }
    }
    order
}

/// The order of a `202`.
fn observe(run: &RunContext, index: usize, accepted: &Accepted) -> ObservedOrder {
    let visit = &run.visits[index];
    let (requested_at, at) = (run.since_start(accepted.requested_at), run.since_start(accepted.at));
    let Order { order_no, sku, quantity, .. } = accepted.order.clone();
    let mut order = ObservedOrder {
        requested_at,
        safe_until: safe_until(requested_at, run.options.pay_timeout()),
        offer_timeout: run.options.offer_timeout(),
        intent: visit.intent,
        ..ObservedOrder::new(order_no, run.user_id(visit.buyer), sku, quantity, at)
    };
    order.record(accepted.order.clone().into(), requested_at, at);
    order
}

/// Cancels the order, or leaves the line, and records what the app answered.
pub async fn cancel(run: &RunContext, order: &mut ObservedOrder, user_token: &HeaderValue) {
    let deadline = Instant::now() + run.options.retry_timeout();
    let call = Call::post(format!("/api/orders/{}/cancel", order.order_no), &json!({})).with_authorization(user_token);
    order.cancellation = match run.app.send_with_retry(Step::Cancel, &call, deadline).await {
        Ok(response) if response.parse::<Order>().is_ok_and(|order| order.status == OrderStatus::Cancelled) => {
            Confirmation::Yes
        }
        Ok(_) | Err(_) => Confirmation::Unknown,
    };
    order.cancelled_at = Some(run.since_start(Instant::now()));
}
