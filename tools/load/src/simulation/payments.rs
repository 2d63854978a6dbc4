//! Pays orders at the sandbox or a payment page, with each payment behaviour.

use std::time::Instant;

use http::header::HeaderValue;
use serde_json::{Value, json};

use super::{
    context::RunContext,
    observations::{Confirmation, ObservedOrder},
    options::PayAt,
    payment_mix::PaymentBehaviour,
    status_poller::StatusPoller,
};
use crate::{
    http::Call,
    meter::Step,
    wire::{Order, OrderStatus, checkout_body},
};

/// Buyer of an order that is to be paid.
pub struct Payer<'a> {
    pub run: &'a RunContext,
    pub user_token: &'a HeaderValue,
    /// Deadline of checkout and of payments that are meant to be in time.
    pub payment_deadline: Instant,
    /// Deadline of everything else that the buyer does.
    pub deadline: Instant,
}

impl Payer<'_> {
    /// Opens a payment session and pays as `behaviour` says. Records in `order` what was confirmed.
    pub async fn pay(&self, behaviour: PaymentBehaviour, order: &mut ObservedOrder, poller: &mut StatusPoller<'_>) {
        let Some(page) = self.start_checkout(&order.order_no).await else { return };
        if self.run.options.pay == PayAt::Expire {
            return;
        }
        match behaviour {
            PaymentBehaviour::Declined => drop(self.press_button(&page, "declined", 0, self.payment_deadline).await),
            PaymentBehaviour::Late => {
                poller.poll_until(order, self.deadline, |status| status != OrderStatus::PendingPayment).await;
                order.payment = self.press_button(&page, "paid", 0, self.deadline).await;
            }
            PaymentBehaviour::Normal => {
                order.payment = self.press_button(&page, "paid", 0, self.payment_deadline).await
            }
            PaymentBehaviour::Twice => {
                order.payment = self.press_button(&page, "paid", 0, self.payment_deadline).await;
                order.extra = self.press_button(&page, "paid", 1, self.deadline).await;
            }
            PaymentBehaviour::RefundRequested => {
                order.payment = self.press_button(&page, "paid", 0, self.payment_deadline).await;
                poller.poll_until(order, self.deadline, |status| status == OrderStatus::Paid).await;
                order.refund = self.request_refund(&order.order_no).await;
            }
        }
        if order.payment != Confirmation::No {
            let payment_recorded = |status| !matches!(status, OrderStatus::PendingPayment | OrderStatus::Expired);
            poller.poll_until(order, self.deadline, payment_recorded).await;
        }
    }

    /// Starts checkout. Returns the path of the sandbox's payment page, or the URL of another.
    async fn start_checkout(&self, order_no: &str) -> Option<String> {
        let call = Call::post(format!("/api/orders/{order_no}/checkout"), &checkout_body())
            .with_authorization(self.user_token);
        let response = self.run.app.send_with_retry(Step::Checkout, &call, self.payment_deadline).await.ok()?;
        let url = response.text("checkout_url").ok()?;
        match self.run.options.pay {
            PayAt::Sandbox => sandbox_path(&url).map(str::to_owned),
            PayAt::Page | PayAt::Expire => Some(url),
        }
    }

    /// Presses a button of the payment page. A `payment_index` above 0 makes another payment in the same session.
    async fn press_button(&self, page: &str, outcome: &str, payment_index: u8, deadline: Instant) -> Confirmation {
        let is_sandbox = self.run.options.pay == PayAt::Sandbox;
        let body = if is_sandbox { json!({"outcome": outcome, "again": payment_index}) } else { Value::Null };
        let call = Call::post(page, &body);
        match self.run.app.send_with_retry(Step::Pay, &call, deadline).await {
            Ok(response) if response.status < 400 => Confirmation::Yes,
            // An earlier try may have succeeded and its response been lost.
            Ok(_) | Err(_) => Confirmation::Unknown,
        }
    }

    /// Requests a refund.
    async fn request_refund(&self, order_no: &str) -> Confirmation {
        let call = Call::post(format!("/api/orders/{order_no}/refund"), &json!({})).with_authorization(self.user_token);
        match self.run.app.send_with_retry(Step::Refund, &call, self.deadline).await {
            Ok(response) if response.parse::<Order>().is_ok() && response.status == 202 => Confirmation::Yes,
            Ok(_) | Err(_) => Confirmation::Unknown,
        }
    }
}

/// The path of the sandbox's payment page. The app serves it itself, so any host name in the URL is ignored.
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
