//! A winner's way: polls until the order can be paid, then pays (`paying.rs`), cancels, or walks away.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use serde_json::json;

use super::observations::{Claim, End, OrderSeen, Span};
use super::payments::Payer;
use super::plan::Intent;
use super::session::Session;
use crate::app::GaveUp;
use crate::http::{Answer, Call};
use crate::meter::Step;
use crate::wire::{Order, Status};

/// Pause between two looks when the app does not say.
const PACE: Duration = Duration::from_millis(500);

/// How long after the end of the time to pay a buyer still tries: late money must be handled, but not for ever.
const LATE: Duration = Duration::from_secs(5);

/// Deadlines may be whole seconds.
const WHOLE_SECONDS: Duration = Duration::from_secs(1);

/// Follows an order until its buyer has nothing more to do. It was made after `due` and before `accepted`.
pub async fn follow(session: &Session, index: usize, order_no: String, due: Instant, accepted: Instant) -> OrderSeen {
    let visit = &session.visits[index];
    let time_to_pay = Duration::from_secs(session.options.pay_timeout.into());
    let accepted_at = session.since_start(accepted);
    let mut order = OrderSeen {
        order_no,
        user: session.user(visit.buyer),
        sku: session.terms.skus[visit.sku].clone(),
        quantity: visit.quantity,
        alive: vec![Span { from: accepted_at, until: accepted_at }],
        safe_until: session.since_start(due) + time_to_pay.saturating_sub(WHOLE_SECONDS),
        intent: visit.intent,
        payment: Claim::No,
        extra: Claim::No,
        refund: Claim::No,
        cancellation: Claim::No,
        paid_in_time: None,
        end: End::Unreadable,
    };
    let mut look = Look::new(session, index);
    let deadline = accepted + session.options.patience();
    look.until(&mut order, deadline, |status| status != Status::Queued).await;
    if order.status() == Some(Status::PendingPayment) {
        let jwt = &session.users[visit.buyer];
        match visit.intent {
            Intent::Pay => {
                let in_time = deadline.min(accepted + time_to_pay + LATE);
                Payer { session, jwt, in_time, deadline }.pay(visit.manner, &mut order, &mut look).await;
            }
            Intent::Cancel => order.cancellation = cancel(session, &order.order_no, jwt).await,
            Intent::Leave => {}
        }
    }
    order
}

/// Looks at an order again and again, with the ticket that made it (or, where that is refused, the user's token).
pub struct Look<'a> {
    session: &'a Session,
    index: usize,
    with_jwt: bool,
    etag: Option<HeaderValue>,
}

impl<'a> Look<'a> {
    /// A first look at the order of visit `index`.
    pub fn new(session: &'a Session, index: usize) -> Self {
        Self { session, index, with_jwt: false, etag: None }
    }

    /// With the user's token from the start: a ticket may have expired.
    pub fn as_user(self) -> Self {
        Self { with_jwt: true, ..self }
    }

    /// Looks once, and again only while the app does not answer; answers when to look again.
    pub async fn once(&mut self, order: &mut OrderSeen, deadline: Instant) -> Duration {
        let asked = self.session.since_start(Instant::now());
        let answer = self.ask(&order.order_no, deadline).await;
        let Ok(answer) = answer else {
            order.end = End::Unreadable;
            self.etag = None;
            return PACE;
        };
        let end = match answer.status {
            200 => answer.parse::<Order>().map_or(End::Unreadable, |seen| End::Status(seen.status)),
            304 => order.end,
            404 => End::Missing,
            _ => End::Unreadable,
        };
        order.saw(end, asked, self.session.since_start(Instant::now()));
        if answer.status != 304 {
            self.etag = answer.etag.filter(|_| order.status().is_some());
        }
        answer.retry_after.unwrap_or(PACE) + Duration::from_millis(fastrand::u64(0..200))
    }

    /// Looks until `enough`, the order is gone, or `deadline`.
    pub async fn until(&mut self, order: &mut OrderSeen, deadline: Instant, enough: impl Fn(Status) -> bool) {
        loop {
            let pause = self.once(order, deadline).await;
            let seen = match order.end {
                End::Status(status) => enough(status),
                End::Missing => true,
                End::Unreadable => false,
            };
            if seen || Instant::now() + pause >= deadline {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask(&mut self, order_no: &str, deadline: Instant) -> Result<Answer, GaveUp> {
        loop {
            let buyer = self.session.visits[self.index].buyer;
            let key = if self.with_jwt { &self.session.users[buyer] } else { &self.session.passes[self.index].bearer };
            let call = Call { etag: self.etag.clone(), ..Call::get(format!("/api/orders/{order_no}")).with(key) };
            let answer = self.session.app.insist(Step::Status, &call, deadline).await?;
            if answer.status == 401 && !self.with_jwt {
                self.with_jwt = true;
                continue;
            }
            return Ok(answer);
        }
    }
}

async fn cancel(session: &Session, order_no: &str, jwt: &HeaderValue) -> Claim {
    let deadline = Instant::now() + session.options.patience();
    let call = Call::post(format!("/api/orders/{order_no}/cancel"), &json!({})).with(jwt);
    match session.app.insist(Step::Cancel, &call, deadline).await {
        Ok(answer) if answer.parse::<Order>().is_ok_and(|order| order.status == Status::Cancelled) => Claim::Yes,
        Ok(_) | Err(_) => Claim::Unknown,
    }
}
