//! A payment service of the shop, and the sandbox, which speaks the same protocol (docs/payments.md).
//!
//! Each call is a signed message to one URL. Only an answer with a status of 2xx and a body that can be read is one:
//! after any other the outcome is unknown.

use domain::{
    api::payments::{
        CloseSession, CreateRefund, GetRefund, OpenSession, PaymentCall, RefundAnswer, RefundOutcome, SessionClosed,
        SessionOpened,
    },
    order::Order,
    webhook::PaymentProvider,
};
use serde::de::DeserializeOwned;
use stores::http_client::{HttpClient, HttpRequest, HttpResponse};

use super::{
    OpenedSession, Presentation, Provider, ProviderError, RefundStatus, SessionStatus, caller::Caller, checked_id,
    checked_session,
};
use crate::ledger::{refunds::Refund, sessions::DueSession};

/// A payment service.
pub struct Webhook<C> {
    /// [`PaymentProvider::Webhook`] or [`PaymentProvider::Sandbox`].
    pub name: PaymentProvider,
    /// Sends the calls.
    pub caller: Caller<C>,
    /// Where calls are sent.
    pub url: String,
    /// `whsec_` secrets that sign calls, separated by spaces.
    pub secrets: String,
    /// Public base URL of the shop, without a path.
    pub shop_url: String,
}

impl<C: HttpClient> Provider for Webhook<C> {
    fn name(&self) -> PaymentProvider {
        self.name
    }

    async fn open_session(
        &self,
        order: &Order,
        session_number: i64,
        shown: &Presentation,
    ) -> Result<OpenedSession, ProviderError> {
        if shown.asks_address {
            let message = "the sale's address is asked for by Stripe's page, and payment_provider is webhook";
            return Err(ProviderError::refusal(message));
        }
        let cancel_url = shown.order_url(&self.shop_url, &order.order_no);
        let call = PaymentCall::OpenSession(OpenSession {
            order_no: order.order_no.clone(),
            session_number,
            money: order.money.clone(),
            sku: order.sku.clone(),
            quantity: order.quantity,
            name: shown.name.clone(),
            image: shown.image_url(&self.shop_url).unwrap_or_default(),
            language: shown.language.clone(),
            created_at: order.created_at,
            pay_by: order.pay_by.unwrap_or_default(),
            return_url: format!("{cancel_url}&payment=done"),
            cancel_url,
        });
        let SessionOpened { session, url } = self.call(&call).await?;
        // The sandbox's pages are on the shop's own origin.
        if self.name == PaymentProvider::Sandbox {
            return Ok(OpenedSession { url, session_id: checked_id(session)? });
        }
        checked_session(session, url)
    }

    async fn close_session(&self, due: &DueSession) -> Result<SessionStatus, ProviderError> {
        let call = CloseSession { session: due.id.clone(), order_no: due.order_no.clone() };
        Ok(match self.call(&PaymentCall::CloseSession(call)).await? {
            SessionClosed::Closed => SessionStatus::Unpaid,
            SessionClosed::Paid { payment, money } => {
                SessionStatus::Paid { payment_id: checked_id(payment)?, money, sealed_address: String::new() }
            }
            SessionClosed::Processing => SessionStatus::Processing,
        })
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        let money = refund.rest();
        let Refund { order_no, payment, failures, refund, part, .. } = refund.clone();
        let call = match refund.is_empty() {
            true => PaymentCall::CreateRefund(CreateRefund { order_no, payment, money, failures, part }),
            false => PaymentCall::GetRefund(GetRefund { refund, order_no, payment }),
        };
        let RefundAnswer { refund, status, reason } = self.call(&call).await?;
        let refund_id = checked_id(refund)?;
        Ok(match status {
            RefundOutcome::Pending => RefundStatus::Pending { refund_id },
            RefundOutcome::Succeeded => RefundStatus::Succeeded { refund_id },
            RefundOutcome::Failed => RefundStatus::Failed { refund_id, reason },
        })
    }
}

impl<C: HttpClient> Webhook<C> {
    async fn call<T: DeserializeOwned>(&self, call: &PaymentCall) -> Result<T, ProviderError> {
        let no_secret = || ProviderError::refusal("webhook_secrets holds no secret that can sign");
        let message = call.message(&self.secrets, (self.caller.clock)()).ok_or_else(no_secret)?;
        let mut headers = message.headers();
        headers.push(("accept", "application/json".to_owned()));
        headers.push(("idempotency-key", message.id));
        let (url, timeout_ms) = (self.url.clone(), self.caller.retry.timeout_ms);
        let request = HttpRequest { method: "POST", url, headers, body: message.body, timeout_ms };
        let response = self.caller.send("the payment service", &request, should_retry).await?;
        if !response.is_success() {
            let retry_after_ms = response.retry_after_ms((self.caller.clock)());
            let message = format!("the payment service answered {}", response.status);
            return Err(ProviderError { retry_after_ms, ..ProviderError::of_status(response.status, message) });
        }
        serde_json::from_slice(&response.body)
            .map_err(|error| ProviderError::new(format!("the payment service's answer: {error}")))
    }
}

/// Whether a retry may soon get a better answer.
fn should_retry(response: &HttpResponse) -> bool {
    matches!(response.status, 409 | 425 | 429 | 500..)
}
