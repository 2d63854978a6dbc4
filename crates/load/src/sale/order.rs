//! A winner's way: polls until the order can be paid, then pays, cancels, or walks away.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use serde_json::json;

use super::evidence::{Claim, End, OrderSeen};
use super::plan::Intent;
use super::session::Session;
use crate::app::GaveUp;
use crate::http::{Answer, Call};
use crate::meter::Step;
use crate::wire::{Checkout, Order, Status};

/// Pause between two looks when the app does not say.
const PACE: Duration = Duration::from_millis(500);

/// How long after the end of the time to pay a buyer still tries: late money must be handled, but not for ever.
const LATE: Duration = Duration::from_secs(5);

/// Follows an accepted order until its buyer has nothing more to do.
pub async fn follow(session: &Session, index: usize, order_no: String, accepted: Instant) -> OrderSeen {
    let visit = &session.visits[index];
    let mut order = OrderSeen {
        order_no,
        user: session.user(visit.buyer),
        sku: session.terms.skus[visit.sku].clone(),
        quantity: visit.quantity,
        accepted_at: session.since_start(accepted),
        alive_until: session.since_start(accepted),
        intent: visit.intent,
        payment: Claim::No,
        cancellation: Claim::No,
        end: End::Unreadable,
    };
    let mut look = Look::new(session, index);
    let deadline = accepted + session.options.patience();
    look.until(&mut order, deadline, |status| status != Status::Queued).await;
    if order.status() == Some(Status::PendingPayment) {
        let jwt = &session.users[visit.buyer];
        match visit.intent {
            Intent::Pay => {
                let time_to_pay = Duration::from_secs(session.options.pay_timeout.into());
                order.payment = pay(session, &order.order_no, jwt, deadline.min(accepted + time_to_pay + LATE)).await;
                if order.payment != Claim::No {
                    look.until(&mut order, deadline, |status| status != Status::PendingPayment).await;
                }
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
        let asked = Instant::now();
        let answer = self.ask(&order.order_no, deadline).await;
        let Ok(answer) = answer else {
            order.end = End::Unreadable;
            self.etag = None;
            return PACE;
        };
        order.end = match answer.status {
            200 => answer.parse::<Order>().map_or(End::Unreadable, |seen| End::Status(seen.status)),
            304 => order.end,
            404 => End::Missing,
            _ => End::Unreadable,
        };
        if answer.status != 304 {
            self.etag = answer.etag.filter(|_| order.status().is_some());
        }
        if order.live_units() > 0 {
            order.alive_until = self.session.since_start(asked).max(order.alive_until);
        }
        answer.retry_after.unwrap_or(PACE) + Duration::from_millis(fastrand::u64(0..200))
    }

    /// Looks until `enough`, the order is gone, or `deadline`.
    async fn until(&mut self, order: &mut OrderSeen, deadline: Instant, enough: impl Fn(Status) -> bool) {
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

/// Opens a payment session and pays it at the sandbox.
async fn pay(session: &Session, order_no: &str, jwt: &HeaderValue, deadline: Instant) -> Claim {
    let address = json!({"name": "Ada Lovelace", "line1": "12 St James's Square", "city": "London",
                         "postal_code": "SW1Y 4JH", "country": "GB"});
    let call = Call::post(format!("/api/orders/{order_no}/checkout"), &json!({"address": address})).with(jwt);
    let Ok(answer) = session.app.insist(Step::Checkout, &call, deadline).await else { return Claim::No };
    let Ok(Checkout { checkout_url }) = answer.parse() else { return Claim::No };
    let Some(path) = sandbox_path(&checkout_url) else { return Claim::No };
    let call = Call::post(path, &json!({"outcome": "paid"}));
    match session.app.insist(Step::Pay, &call, deadline).await {
        Ok(answer) if answer.status < 400 => Claim::Yes,
        // Perhaps an earlier try got through and its answer was lost.
        Ok(_) | Err(_) => Claim::Unknown,
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

/// The sandbox's page lives in the app itself, whatever name the app gives itself.
fn sandbox_path(checkout_url: &str) -> Option<&str> {
    checkout_url.find("/sandbox/pay/").map(|start| &checkout_url[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payment_page_is_found_behind_any_host_name() {
        assert_eq!(sandbox_path("https://shop.example/sandbox/pay/s1"), Some("/sandbox/pay/s1"));
        assert_eq!(sandbox_path("/sandbox/pay/s1"), Some("/sandbox/pay/s1"));
        assert_eq!(sandbox_path("https://pay.example/s1"), None);
    }
}
