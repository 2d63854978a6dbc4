//! Stripe: Checkout Sessions and Refunds.
//!
//! Requests follow Stripe's API reference: form-encoded, with a pinned API version, and an idempotency key on every
//! request that changes something.

use std::pin::Pin;

use domain::{
    money::Money,
    order::Order,
    stripe::{API_VERSION, Object},
    time::Millis,
    webhook::PaymentProvider,
};
use form_urlencoded::Serializer;
use serde::{Deserialize, de::DeserializeOwned};

use super::{OpenedSession, Provider, ProviderError, RefundStatus, SessionStatus};
use crate::{
    http_client::{HttpClient, HttpRequest, HttpResponse},
    ledger::refunds::Refund,
};

/// Retries and timeout of one Stripe call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Timeout of each attempt, in milliseconds.
    pub timeout_ms: i64,
}

impl RetryPolicy {
    /// For calls that a buyer waits for, which no background job repeats.
    pub const BUYER: Self = Self { max_attempts: 3, timeout_ms: 8_000 };

    /// For the sweeper, which repeats the call in a later run and has other work to do.
    pub const SWEEPER: Self = Self { max_attempts: 1, timeout_ms: 4_000 };
}

/// Wait before the second attempt, in milliseconds. It doubles with every attempt.
const INITIAL_BACKOFF_MS: i64 = 300;

/// Longest wait between two attempts, in milliseconds. If Stripe asks for a longer one, the call fails and is repeated
/// later.
const MAX_WAIT_MS: i64 = 2_000;

/// Seconds from the payment deadline to the expiry of a session. Stripe accepts an expiry between 30 minutes and 24
/// hours ahead. The application ends the session earlier.
const SESSION_EXTRA_SECONDS: i64 = 31 * 60;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// The Stripe provider.
pub struct Stripe<C> {
    /// The HTTP client.
    pub http_client: C,
    /// Base URL of the API, without a path.
    pub api_url: String,
    /// Secret API key.
    pub api_key: String,
    /// Public base URL of the shop, without a path. The payment page links back to it.
    pub shop_url: String,
    /// Retries and timeout.
    pub retry: RetryPolicy,
    /// Returns the current time.
    pub clock: fn() -> Millis,
    /// Sleeps for a number of milliseconds.
    pub sleep: fn(i64) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Body of an error response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorDetail {
    r#type: String,
    code: Option<String>,
    message: Option<String>,
}

impl<C: HttpClient> Provider for Stripe<C> {
    fn name(&self) -> PaymentProvider {
        PaymentProvider::Stripe
    }

    async fn open_session(&self, order: &Order, session_number: i64) -> Result<OpenedSession, ProviderError> {
        let idempotency_key = match session_number {
            1 => format!("checkout_{}", order.order_no),
            _ => format!("checkout_{}_{session_number}", order.order_no),
        };
        let form = self.session_form(order, session_number);
        let session: Object = self.call("POST", "/v1/checkout/sessions", form, &idempotency_key).await?.parse()?;
        let url = session.url.ok_or_else(|| ProviderError::new("a session without a URL"))?;
        Ok(OpenedSession { url, session_id: Some(session.id) })
    }

    async fn close_session(&self, session_id: &str) -> Result<SessionStatus, ProviderError> {
        let path = format!("/v1/checkout/sessions/{session_id}");
        let object: Object = self.call("GET", &path, String::new(), "").await?.parse()?;
        if object.status.as_deref() != Some("open") {
            return Ok(session_status(&object));
        }
        let expire_response =
            self.call("POST", &format!("{path}/expire"), String::new(), &format!("expire_{session_id}")).await?;
        match expire_response.status {
            200..300 => expire_response.parse::<Object>().map(|object| session_status(&object)),
            // The session was paid or expired between the two calls.
            _ => self
                .call("GET", &path, String::new(), "")
                .await?
                .parse::<Object>()
                .map(|object| session_status(&object)),
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        let response = if refund.refund.is_empty() {
            let mut form = Serializer::new(String::new());
            form.append_pair("payment_intent", &refund.payment);
            form.append_pair("amount", &refund.money.amount.to_string());
            form.append_pair("metadata[order_no]", &refund.order_no);
            let idempotency_key = format!("refund_{}_{}_{}", refund.order_no, refund.payment, refund.failures);
            self.call("POST", "/v1/refunds", form.finish(), &idempotency_key).await?
        } else {
            self.call("GET", &format!("/v1/refunds/{}", refund.refund), String::new(), "").await?
        };
        if response.error_code().as_deref() == Some("charge_already_refunded") {
            return Ok(RefundStatus::Succeeded { refund_id: refund.refund.clone() });
        }
        let object: Object = response.parse()?;
        Ok(match object.status.as_deref() {
            Some("succeeded") => RefundStatus::Succeeded { refund_id: object.id },
            Some("failed" | "canceled") => {
                let reason = object.failure_reason.unwrap_or_else(|| "failed".to_owned());
                RefundStatus::Failed { refund_id: object.id, reason }
            }
            _ => RefundStatus::Pending { refund_id: object.id },
        })
    }
}

fn session_status(session: &Object) -> SessionStatus {
    match (session.payment_status.as_deref(), session.status.as_deref()) {
        (Some("paid"), _) => SessionStatus::Paid { payment_id: session.payment_id(), money: session.money() },
        (_, Some("expired")) => SessionStatus::Unpaid,
        _ => SessionStatus::Processing,
    }
}

impl<C: HttpClient> Stripe<C> {
    /// Form fields of an order's session.
    ///
    /// They depend only on values that do not change before the order has a session, so that a retry sends the same
    /// request. For a later session the hold may have been extended already, or may be extended soon: such a session
    /// gets no expiry, and the application ends it.
    fn session_form(&self, order: &Order, session_number: i64) -> String {
        let order_no = order.order_no.to_string();
        let Money { amount, currency } = &order.money;
        let divisible = order.quantity > 0 && amount % order.quantity == 0;
        let (quantity, unit_amount) = if divisible { (order.quantity, amount / order.quantity) } else { (1, *amount) };
        let order_url = format!("{}/order?order_no={order_no}", self.shop_url);
        let mut form = Serializer::new(String::new());
        form.append_pair("mode", "payment");
        form.append_pair("client_reference_id", &order_no);
        form.append_pair("line_items[0][quantity]", &quantity.to_string());
        form.append_pair("line_items[0][price_data][currency]", &currency.to_ascii_lowercase());
        form.append_pair("line_items[0][price_data][unit_amount]", &unit_amount.to_string());
        form.append_pair("line_items[0][price_data][product_data][name]", order.sku.as_str());
        form.append_pair("metadata[order_no]", &order_no);
        form.append_pair("payment_intent_data[metadata][order_no]", &order_no);
        form.append_pair("success_url", &format!("{order_url}&payment=done"));
        form.append_pair("cancel_url", &order_url);
        let ends_at = order.pay_by.unwrap_or_default().plus(SESSION_EXTRA_SECONDS * 1_000);
        if session_number == 1 && ends_at.0 - order.created_at.0 < DAY_MS {
            form.append_pair("expires_at", &(ends_at.0 / 1_000).to_string());
        }
        form.finish()
    }

    /// Sends one request, and retries with back-off after a timeout, a conflict, a rate limit or a server error.
    async fn call(
        &self,
        method: &'static str,
        path: &str,
        form: String,
        idempotency_key: &str,
    ) -> Result<StripeResponse, ProviderError> {
        let mut backoff_ms = INITIAL_BACKOFF_MS;
        for attempt in 1.. {
            let (wait_ms, error) = match self.http_client.send(self.request(method, path, &form, idempotency_key)).await
            {
                Ok(response) if !should_retry(&response) => {
                    return Ok(StripeResponse { status: response.status, body: response.body });
                }
                Ok(response) => {
                    let retry_after_ms = response.retry_after_ms((self.clock)());
                    let message = format!("Stripe answered {} to {method} {path}", response.status);
                    (retry_after_ms, ProviderError { message, retry_after_ms })
                }
                Err(error) => (None, ProviderError::new(format!("{method} {path}: {error}"))),
            };
            let wait_ms = wait_ms.unwrap_or(backoff_ms).max(backoff_ms);
            if attempt == self.retry.max_attempts || wait_ms > MAX_WAIT_MS {
                return Err(error);
            }
            (self.sleep)(wait_ms).await;
            backoff_ms *= 2;
        }
        Err(ProviderError::new("Stripe was not asked"))
    }

    fn request(&self, method: &'static str, path: &str, form: &str, idempotency_key: &str) -> HttpRequest {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.api_key)),
            ("stripe-version", API_VERSION.to_owned()),
            ("accept", "application/json".to_owned()),
            ("user-agent", "stampede".to_owned()),
        ];
        if method == "POST" {
            headers.push(("content-type", "application/x-www-form-urlencoded".to_owned()));
            headers.push(("idempotency-key", idempotency_key.to_owned()));
        }
        let url = format!("{}{path}", self.api_url);
        HttpRequest { method, url, headers, body: form.to_owned(), timeout_ms: self.retry.timeout_ms }
    }
}

/// Whether a retry may get a better answer: by Stripe's own header, otherwise by the status.
fn should_retry(response: &HttpResponse) -> bool {
    match response.header("stripe-should-retry") {
        Some("true") => true,
        Some("false") => false,
        _ => matches!(response.status, 409 | 429 | 500..),
    }
}

struct StripeResponse {
    status: u16,
    body: Vec<u8>,
}

impl StripeResponse {
    /// Parses the body of a successful response. An error status becomes a [`ProviderError`], and the call is repeated
    /// later: an operator may have fixed the cause by then.
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ProviderError> {
        if !(200..300).contains(&self.status) {
            let ErrorBody { error } = serde_json::from_slice(&self.body).unwrap_or_default();
            let (code, message) = (error.code.unwrap_or_default(), error.message.unwrap_or_default());
            return Err(ProviderError::new(format!(
                "Stripe answered {}: {} {code} {message}",
                self.status, error.r#type
            )));
        }
        serde_json::from_slice(&self.body).map_err(|error| ProviderError::new(format!("Stripe's answer: {error}")))
    }

    fn error_code(&self) -> Option<String> {
        let is_error = !(200..300).contains(&self.status);
        is_error.then(|| serde_json::from_slice::<ErrorBody>(&self.body).unwrap_or_default().error.code).flatten()
    }
}
