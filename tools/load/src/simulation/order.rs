//! Acts as the buyer of one order: polls it, then pays, cancels or leaves.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use serde_json::json;

use super::context::RunContext;
use super::observations::{Confirmation, Interval, LastSeen, ObservedOrder};
use super::payments::Payer;
use super::plan::Intent;
use crate::app::DeadlineExceeded;
use crate::http::{Call, Response};
use crate::meter::Step;
use crate::wire::{Order, OrderStatus};

/// Delay between two polls if the response has no `Retry-After`.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

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
    let accepted_at = run.since_start(accepted);
    let mut order = ObservedOrder {
        order_no,
        user: run.user_id(visit.buyer),
        sku: run.activity.skus[visit.sku].clone(),
        quantity: visit.quantity,
        alive: vec![Interval { from: accepted_at, until: accepted_at }],
        safe_until: run.since_start(due) + pay_timeout.saturating_sub(DEADLINE_ROUNDING),
        intent: visit.intent,
        payment: Confirmation::No,
        extra: Confirmation::No,
        refund: Confirmation::No,
        cancellation: Confirmation::No,
        paid_in_time: None,
        end: LastSeen::Unreadable,
    };
    let mut poller = StatusPoller::new(run, index);
    let deadline = accepted + run.options.retry_timeout();
    poller.poll_until(&mut order, deadline, |status| status != OrderStatus::Queued).await;
    if order.status() == Some(OrderStatus::PendingPayment) {
        let user_token = &run.user_tokens[visit.buyer];
        match visit.intent {
            Intent::Pay => {
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

/// Polls an order with the ticket that made it, or with the user's token if the app refuses the ticket.
pub struct StatusPoller<'a> {
    run: &'a RunContext,
    index: usize,
    use_user_token: bool,
    etag: Option<HeaderValue>,
}

impl<'a> StatusPoller<'a> {
    /// A poller for the order of visit `index`.
    pub fn new(run: &'a RunContext, index: usize) -> Self {
        Self { run, index, use_user_token: false, etag: None }
    }

    /// Uses the user's token from the start: a ticket may have expired.
    pub fn with_user_token(self) -> Self {
        Self { use_user_token: true, ..self }
    }

    /// Polls once, with retries while the app does not answer. Returns the delay before the next poll.
    pub async fn poll(&mut self, order: &mut ObservedOrder, deadline: Instant) -> Duration {
        let asked_at = self.run.since_start(Instant::now());
        let response = self.fetch(&order.order_no, deadline).await;
        let Ok(response) = response else {
            order.end = LastSeen::Unreadable;
            self.etag = None;
            return POLL_INTERVAL;
        };
        let end = match response.status {
            200 => response.parse::<Order>().map_or(LastSeen::Unreadable, |seen| LastSeen::Status(seen.status)),
            304 => order.end,
            404 => LastSeen::Missing,
            _ => LastSeen::Unreadable,
        };
        order.record(end, asked_at, self.run.since_start(Instant::now()));
        if response.status != 304 {
            self.etag = response.etag.filter(|_| order.status().is_some());
        }
        response.retry_after.unwrap_or(POLL_INTERVAL) + Duration::from_millis(fastrand::u64(0..200))
    }

    /// Polls until `done` returns true, the order is missing, or `deadline` passes.
    pub async fn poll_until(
        &mut self,
        order: &mut ObservedOrder,
        deadline: Instant,
        done: impl Fn(OrderStatus) -> bool,
    ) {
        loop {
            let delay = self.poll(order, deadline).await;
            let seen = match order.end {
                LastSeen::Status(status) => done(status),
                LastSeen::Missing => true,
                LastSeen::Unreadable => false,
            };
            if seen || Instant::now() + delay >= deadline {
                return;
            }
            tokio::time::sleep(delay).await;
        }
    }

    async fn fetch(&mut self, order_no: &str, deadline: Instant) -> Result<Response, DeadlineExceeded> {
        loop {
            let buyer = self.run.visits[self.index].buyer;
            let authorization =
                if self.use_user_token { &self.run.user_tokens[buyer] } else { &self.run.tickets[self.index].bearer };
            let call = Call {
                etag: self.etag.clone(),
                ..Call::get(format!("/api/orders/{order_no}")).with_authorization(authorization)
            };
            let response = self.run.app.send_with_retry(Step::Status, &call, deadline).await?;
            if response.status == 401 && !self.use_user_token {
                self.use_user_token = true;
                continue;
            }
            return Ok(response);
        }
    }
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
