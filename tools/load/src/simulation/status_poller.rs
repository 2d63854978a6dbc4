//! Polls the status of an order, with its ticket or its user's token.

use std::time::{Duration, Instant};

use anyhow::Result;
use http::header::HeaderValue;

use super::{
    context::RunContext,
    observations::{LastSeen, ObservedOrder, Seen},
};
use crate::{
    http::{Call, Response},
    meter::Step,
    wire::{Order, OrderStatus},
};

/// Delay between two polls if the response has no `Retry-After`.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Polls an order with the ticket that made it, or with the user's token if the app refuses the ticket.
pub struct StatusPoller<'a> {
    run: &'a RunContext,
    index: usize,
    use_user_token: bool,
    /// What was last seen, with its `ETag`.
    last: Option<(HeaderValue, Seen)>,
}

impl<'a> StatusPoller<'a> {
    /// A poller for the order of visit `index`.
    pub fn new(run: &'a RunContext, index: usize) -> Self {
        Self { run, index, use_user_token: false, last: None }
    }

    /// Uses the user's token from the start: a ticket may have expired.
    pub fn with_user_token(self) -> Self {
        Self { use_user_token: true, ..self }
    }

    /// Polls once, with retries while the app does not respond. Returns the delay before the next poll.
    pub async fn poll(&mut self, order: &mut ObservedOrder, deadline: Instant) -> Duration {
        let asked_at = self.run.since_start(Instant::now());
        let response = self.fetch(&order.order_no, deadline).await;
        let Ok(response) = response else {
            order.end = LastSeen::Unreadable;
            self.last = None;
            return POLL_INTERVAL;
        };
        let seen = match (response.status, self.last.take()) {
            (200, _) => response.parse::<Order>().map_or(LastSeen::Unreadable.into(), Seen::from),
            (304, Some((_, seen))) => seen,
            (404, _) => LastSeen::Missing.into(),
            _ => LastSeen::Unreadable.into(),
        };
        order.record(seen.clone(), asked_at, self.run.since_start(Instant::now()));
        if order.status().is_some() {
            self.last = response.etag.map(|etag| (etag, seen));
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

    async fn fetch(&mut self, order_no: &str, deadline: Instant) -> Result<Response> {
        loop {
            let buyer = self.run.visits[self.index].buyer;
            let authorization =
                if self.use_user_token { &self.run.user_tokens[buyer] } else { &self.run.tickets[self.index].bearer };
            let call = Call {
                etag: self.last.as_ref().map(|(etag, _)| etag.clone()),
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
