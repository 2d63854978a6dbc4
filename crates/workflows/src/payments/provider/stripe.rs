//! Stripe: Checkout Sessions and Refunds, spoken as its API reference says: form-encoded, with a pinned version and an
//! idempotency key on everything that changes something.

use std::pin::Pin;

use domain::{
    money::Money,
    order::Order,
    stripe::{API_VERSION, Object},
    time::Millis,
};
use form_urlencoded::Serializer;
use serde::{Deserialize, de::DeserializeOwned};

use super::{OpenedSession, Provider, ProviderError, RefundStatus, SessionStatus};
use crate::{
    http_client::{HttpClient, HttpRequest, HttpResponse},
    ledger::refunds::Refund,
};

/// How much of Stripe's silence one call bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often it is tried.
    pub max_attempts: u32,
    /// How long Stripe has to answer, in milliseconds.
    pub timeout_ms: i64,
}

impl RetryPolicy {
    /// Somebody waits for the answer, and nobody else will ask again.
    pub const BUYER: Self = Self { max_attempts: 3, timeout_ms: 8_000 };

    /// The sweeper asks again anyway, and has other things to do.
    pub const SWEEPER: Self = Self { max_attempts: 1, timeout_ms: 4_000 };
}

/// The pause before the second try, in milliseconds; it doubles after that.
const INITIAL_BACKOFF_MS: i64 = 300;

/// The longest pause within one call, in milliseconds: who is asked to wait longer comes again later.
const MAX_WAIT_MS: i64 = 2_000;

/// Stripe takes an end of a session between 30 minutes and 24 hours away: this is after the order's, in seconds. We end
/// it ourselves before that.
const SESSION_EXTRA_SECONDS: i64 = 31 * 60;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Stripe.
pub struct Stripe<C> {
    /// The way to it.
    pub http_client: C,
    /// Where it is, without a path.
    pub api_url: String,
    /// Its secret API key.
    pub api_key: String,
    /// Where buyers see the shop, without a path: the way back from the payment page.
    pub shop_url: String,
    /// How much silence a call bears.
    pub retry: RetryPolicy,
    /// The clock.
    pub clock: fn() -> Millis,
    /// Waits so many milliseconds.
    pub sleep: fn(i64) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// What a `4xx` says.
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
    async fn open_session(&self, order: &Order, attempt: i64) -> Result<OpenedSession, ProviderError> {
        let idempotency_key = match attempt {
            1 => format!("checkout_{}", order.order_no),
            _ => format!("checkout_{}_{attempt}", order.order_no),
        };
        let form = self.session_form(order, attempt);
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
            // It was paid, or ended by itself, between our two calls.
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
                RefundStatus::Failed(object.failure_reason.unwrap_or_else(|| "failed".to_owned()))
            }
            _ => RefundStatus::Pending { refund_id: object.id },
        })
    }
}

fn session_status(session: &Object) -> SessionStatus {
    match (session.payment_status.as_deref(), session.status.as_deref()) {
        (Some("paid"), _) => SessionStatus::Paid { payment_id: session.payment(), money: session.money() },
        (_, Some("expired")) => SessionStatus::Unpaid,
        _ => SessionStatus::Processing,
    }
}

impl<C: HttpClient> Stripe<C> {
    /// The form of an order's session. Everything in it follows from what never changes before the order has one, so
    /// that a second try is the same request. By a later attempt the hold may have been extended, or be about to be: that
    /// session names no end of its own, and ours comes first.
    fn session_form(&self, order: &Order, attempt: i64) -> String {
        let order_no = order.order_no.to_string();
        let Money { amount, currency } = &order.money;
        let divisible = order.quantity > 0 && amount % order.quantity == 0;
        let (quantity, unit_amount) = if divisible { (order.quantity, amount / order.quantity) } else { (1, *amount) };
        let return_url = format!("{}/sale?activity={}", self.shop_url, order.activity());
        let mut form = Serializer::new(String::new());
        form.append_pair("mode", "payment");
        form.append_pair("client_reference_id", &order_no);
        form.append_pair("line_items[0][quantity]", &quantity.to_string());
        form.append_pair("line_items[0][price_data][currency]", &currency.to_ascii_lowercase());
        form.append_pair("line_items[0][price_data][unit_amount]", &unit_amount.to_string());
        form.append_pair("line_items[0][price_data][product_data][name]", order.sku.as_str());
        form.append_pair("metadata[order_no]", &order_no);
        form.append_pair("payment_intent_data[metadata][order_no]", &order_no);
        form.append_pair("success_url", &return_url);
        form.append_pair("cancel_url", &return_url);
        let ends_at = order.pay_by.unwrap_or_default().plus(SESSION_EXTRA_SECONDS * 1_000);
        if attempt == 1 && ends_at.0 - order.created_at.0 < DAY_MS {
            form.append_pair("expires_at", &(ends_at.0 / 1_000).to_string());
        }
        form.finish()
    }

    /// One call, tried again with back-off while Stripe is silent, busy or broken.
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

/// Whether the same call may be answered better in a moment: Stripe says so itself, or by the status.
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
    /// The document of a success. A refusal is no answer to what was asked, so it is asked again later: an operator may
    /// have mended it by then.
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
