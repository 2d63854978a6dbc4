//! Paying at the sandbox, in every manner.

use std::time::Instant;

use http::header::HeaderValue;
use serde_json::json;

use super::observations::{Claim, OrderSeen};
use super::order::Look;
use super::payment_mix::Manner;
use super::session::Session;
use crate::http::Call;
use crate::meter::Step;
use crate::wire::{Checkout, Order, Status};

/// A buyer with an order to pay.
pub struct Payer<'a> {
    /// The sale.
    pub session: &'a Session,
    /// `Bearer <JWT>`.
    pub jwt: &'a HeaderValue,
    /// Until when money is sent that is meant to be in time.
    pub in_time: Instant,
    /// Until when the buyer does anything at all.
    pub deadline: Instant,
}

impl Payer<'_> {
    /// Opens a payment session and goes about it in the given manner; notes in the order what is certain.
    pub async fn pay(&self, manner: Manner, order: &mut OrderSeen, look: &mut Look<'_>) {
        let Some(page) = self.check_out(&order.order_no).await else { return };
        match manner {
            Manner::Declined => drop(self.press(&page, "declined", 0, self.in_time).await),
            Manner::Late => {
                look.until(order, self.deadline, |status| status != Status::PendingPayment).await;
                order.payment = self.press(&page, "paid", 0, self.deadline).await;
            }
            Manner::Plain => order.payment = self.press(&page, "paid", 0, self.in_time).await,
            Manner::Twice => {
                order.payment = self.press(&page, "paid", 0, self.in_time).await;
                order.extra = self.press(&page, "paid", 1, self.deadline).await;
            }
            Manner::Refunded => {
                order.payment = self.press(&page, "paid", 0, self.in_time).await;
                look.until(order, self.deadline, |status| status == Status::Paid).await;
                order.refund = self.ask_back(&order.order_no).await;
            }
        }
        if order.payment != Claim::No {
            let waiting = |status| !matches!(status, Status::PendingPayment | Status::Expired);
            look.until(order, self.deadline, waiting).await;
        }
    }

    /// Where to pay, at the sandbox.
    async fn check_out(&self, order_no: &str) -> Option<String> {
        let address = json!({"name": "Ada Lovelace", "line1": "12 St James's Square", "city": "London",
                             "postal_code": "SW1Y 4JH", "country": "GB"});
        let call = Call::post(format!("/api/orders/{order_no}/checkout"), &json!({"address": address})).with(self.jwt);
        let answer = self.session.app.insist(Step::Checkout, &call, self.in_time).await.ok()?;
        let Checkout { checkout_url } = answer.parse().ok()?;
        sandbox_path(&checkout_url).map(str::to_owned)
    }

    /// Presses a button of the payment page; `again` is another payment of the same session.
    async fn press(&self, page: &str, outcome: &str, again: u8, deadline: Instant) -> Claim {
        let call = Call::post(page, &json!({"outcome": outcome, "again": again}));
        match self.session.app.insist(Step::Pay, &call, deadline).await {
            Ok(answer) if answer.status < 400 => Claim::Yes,
            // Perhaps an earlier try got through and its answer was lost.
            Ok(_) | Err(_) => Claim::Unknown,
        }
    }

    /// Asks for the money back.
    async fn ask_back(&self, order_no: &str) -> Claim {
        let call = Call::post(format!("/api/orders/{order_no}/refund"), &json!({})).with(self.jwt);
        match self.session.app.insist(Step::Refund, &call, self.deadline).await {
            Ok(answer) if answer.parse::<Order>().is_ok() && answer.status == 202 => Claim::Yes,
            Ok(_) | Err(_) => Claim::Unknown,
        }
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
