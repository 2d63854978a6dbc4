//! The sandbox provider for development, served by the app's component `sandbox`.

use domain::{order::Order, sandbox_session::SandboxSession, webhook::PaymentProvider};
use serde_json::json;

use super::{OpenedSession, Provider, ProviderError, RefundStatus, SessionStatus};
use crate::{
    http_client::{HttpClient, HttpRequest},
    ledger::refunds::Refund,
};

/// Timeout of a call, in milliseconds.
const TIMEOUT_MS: i64 = 5_000;

/// The sandbox provider.
pub struct Sandbox<C> {
    /// The HTTP client.
    pub http_client: C,
    /// Base URL of the sandbox component.
    pub base_url: String,
    /// Signs payment sessions. A session's token contains all of its data, so the sandbox stores none.
    pub ticket_secret: String,
    /// Bearer token of the sandbox's refund route.
    pub cron_token: String,
}

impl<C: HttpClient> Provider for Sandbox<C> {
    fn name(&self) -> PaymentProvider {
        PaymentProvider::Sandbox
    }

    async fn open_session(&self, order: &Order, _: i64) -> Result<OpenedSession, ProviderError> {
        let session = SandboxSession::new(order.order_no.clone(), order.money.clone(), order.created_at);
        let token =
            session.sign(&self.ticket_secret).ok_or_else(|| ProviderError::new("no session could be signed"))?;
        Ok(OpenedSession { url: format!("/sandbox/pay/{token}"), session_id: None })
    }

    /// Sandbox sessions stay payable, so that late payments can be tried out.
    async fn close_session(&self, _: &str) -> Result<SessionStatus, ProviderError> {
        Ok(SessionStatus::Unpaid)
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        let body = json!({
            "order_no": refund.order_no, "payment": refund.payment,
            "amount": refund.money.amount, "currency": refund.money.currency, "failures": refund.failures,
        });
        let request = HttpRequest {
            method: "POST",
            url: format!("{}/sandbox/refunds", self.base_url),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("authorization", format!("Bearer {}", self.cron_token)),
            ],
            body: body.to_string(),
            timeout_ms: TIMEOUT_MS,
        };
        let response = self.http_client.send(request).await.map_err(|error| ProviderError::new(error.to_string()))?;
        match response.is_success() {
            true => Ok(RefundStatus::Pending { refund_id: String::new() }),
            false => Err(ProviderError::new(format!("the sandbox answered {}", response.status))),
        }
    }
}
