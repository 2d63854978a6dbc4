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

use super::{Closed, Opened, Provider, Refunded, Unknown};
use crate::{
    http_client::{HttpClient, HttpRequest, HttpResponse},
    ledger::refunds::Refund,
};

/// How much of Stripe's silence one call bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How often it is tried.
    pub tries: u32,
    /// How long Stripe has to answer, in milliseconds.
    pub timeout_ms: i64,
}

impl Patience {
    /// Somebody waits for the answer, and nobody else will ask again.
    pub const BUYER: Self = Self { tries: 3, timeout_ms: 8_000 };

    /// The sweeper asks again anyway, and has other things to do.
    pub const SWEEPER: Self = Self { tries: 1, timeout_ms: 4_000 };
}

/// The pause before the second try, in milliseconds; it doubles after that.
const FIRST_PAUSE_MS: i64 = 300;

/// The longest pause within one call, in milliseconds: who is asked to wait longer comes again later.
const LONGEST_PAUSE_MS: i64 = 2_000;

/// Stripe takes an end of a session between 30 minutes and 24 hours away: this is after the order's, in seconds. We end
/// it ourselves before that.
const SESSION_SECONDS: i64 = 31 * 60;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Stripe.
pub struct Stripe<W> {
    /// The way to it.
    pub web: W,
    /// Where it is, without a path.
    pub api: String,
    /// Its secret API key.
    pub key: String,
    /// Where buyers see the shop, without a path: the way back from the payment page.
    pub shop: String,
    /// How much silence a call bears.
    pub patience: Patience,
    /// The clock.
    pub clock: fn() -> Millis,
    /// Waits so many milliseconds.
    pub pause: fn(i64) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// What a `4xx` says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: RefusalDetail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RefusalDetail {
    r#type: String,
    code: Option<String>,
    message: Option<String>,
}

impl<W: HttpClient> Provider for Stripe<W> {
    async fn open(&self, order: &Order, attempt: i64) -> Result<Opened, Unknown> {
        let key = match attempt {
            1 => format!("checkout_{}", order.order_no),
            _ => format!("checkout_{}_{attempt}", order.order_no),
        };
        let form = self.session_of(order, attempt);
        let session: Object = self.call("POST", "/v1/checkout/sessions", form, &key).await?.read()?;
        let url = session.url.ok_or_else(|| Unknown::new("a session without a URL"))?;
        Ok(Opened { url, session: Some(session.id) })
    }

    async fn close(&self, session: &str) -> Result<Closed, Unknown> {
        let path = format!("/v1/checkout/sessions/{session}");
        let seen: Object = self.call("GET", &path, String::new(), "").await?.read()?;
        if seen.status.as_deref() != Some("open") {
            return Ok(closed(&seen));
        }
        let ended = self.call("POST", &format!("{path}/expire"), String::new(), &format!("expire_{session}")).await?;
        match ended.status {
            200..300 => ended.read::<Object>().map(|seen| closed(&seen)),
            // It was paid, or ended by itself, between our two calls.
            _ => self.call("GET", &path, String::new(), "").await?.read::<Object>().map(|seen| closed(&seen)),
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<Refunded, Unknown> {
        let answer = if refund.refund.is_empty() {
            let mut form = Serializer::new(String::new());
            form.append_pair("payment_intent", &refund.payment);
            form.append_pair("amount", &refund.money.amount.to_string());
            form.append_pair("metadata[order_no]", &refund.order_no);
            let key = format!("refund_{}_{}_{}", refund.order_no, refund.payment, refund.failures);
            self.call("POST", "/v1/refunds", form.finish(), &key).await?
        } else {
            self.call("GET", &format!("/v1/refunds/{}", refund.refund), String::new(), "").await?
        };
        if answer.refusal_code().as_deref() == Some("charge_already_refunded") {
            return Ok(Refunded::Done { refund: refund.refund.clone() });
        }
        let seen: Object = answer.read()?;
        Ok(match seen.status.as_deref() {
            Some("succeeded") => Refunded::Done { refund: seen.id },
            Some("failed" | "canceled") => Refunded::Failed(seen.failure_reason.unwrap_or_else(|| "failed".to_owned())),
            _ => Refunded::Taken { refund: seen.id },
        })
    }
}

fn closed(session: &Object) -> Closed {
    match (session.payment_status.as_deref(), session.status.as_deref()) {
        (Some("paid"), _) => Closed::Paid { payment: session.payment(), money: session.money() },
        (_, Some("expired")) => Closed::Unpaid,
        _ => Closed::Underway,
    }
}

impl<W: HttpClient> Stripe<W> {
    /// The form of an order's session. Everything in it follows from what never changes before the order has one, so
    /// that a second try is the same request. By a later attempt the hold may have been extended, or be about to be: that
    /// session names no end of its own, and ours comes first.
    fn session_of(&self, order: &Order, attempt: i64) -> String {
        let order_no = order.order_no.to_string();
        let Money { amount, currency } = &order.money;
        let whole = order.quantity > 0 && amount % order.quantity == 0;
        let (quantity, unit) = if whole { (order.quantity, amount / order.quantity) } else { (1, *amount) };
        let back = format!("{}/sale?activity={}", self.shop, order.activity());
        let mut form = Serializer::new(String::new());
        form.append_pair("mode", "payment");
        form.append_pair("client_reference_id", &order_no);
        form.append_pair("line_items[0][quantity]", &quantity.to_string());
        form.append_pair("line_items[0][price_data][currency]", &currency.to_ascii_lowercase());
        form.append_pair("line_items[0][price_data][unit_amount]", &unit.to_string());
        form.append_pair("line_items[0][price_data][product_data][name]", order.sku.as_str());
        form.append_pair("metadata[order_no]", &order_no);
        form.append_pair("payment_intent_data[metadata][order_no]", &order_no);
        form.append_pair("success_url", &back);
        form.append_pair("cancel_url", &back);
        let ends_at = order.pay_by.unwrap_or_default().plus(SESSION_SECONDS * 1_000);
        if attempt == 1 && ends_at.0 - order.created_at.0 < DAY_MS {
            form.append_pair("expires_at", &(ends_at.0 / 1_000).to_string());
        }
        form.finish()
    }

    /// One call, tried again with back-off while Stripe is silent, busy or broken.
    async fn call(&self, method: &'static str, path: &str, form: String, idempotency: &str) -> Result<Answer, Unknown> {
        let mut pause_ms = FIRST_PAUSE_MS;
        for tries in 1.. {
            let (wait_ms, error) = match self.web.send(self.request(method, path, &form, idempotency)).await {
                Ok(answer) if !comes_again(&answer) => return Ok(Answer { status: answer.status, body: answer.body }),
                Ok(answer) => {
                    let asked = answer.retry_after_ms((self.clock)());
                    let text = format!("Stripe answered {} to {method} {path}", answer.status);
                    (asked, Unknown { text, retry_after_ms: asked })
                }
                Err(error) => (None, Unknown::new(format!("{method} {path}: {error}"))),
            };
            let wait_ms = wait_ms.unwrap_or(pause_ms).max(pause_ms);
            if tries == self.patience.tries || wait_ms > LONGEST_PAUSE_MS {
                return Err(error);
            }
            (self.pause)(wait_ms).await;
            pause_ms *= 2;
        }
        Err(Unknown::new("Stripe was not asked"))
    }

    fn request(&self, method: &'static str, path: &str, form: &str, idempotency: &str) -> HttpRequest {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.key)),
            ("stripe-version", API_VERSION.to_owned()),
            ("accept", "application/json".to_owned()),
            ("user-agent", "stampede".to_owned()),
        ];
        if method == "POST" {
            headers.push(("content-type", "application/x-www-form-urlencoded".to_owned()));
            headers.push(("idempotency-key", idempotency.to_owned()));
        }
        let url = format!("{}{path}", self.api);
        HttpRequest { method, url, headers, body: form.to_owned(), timeout_ms: self.patience.timeout_ms }
    }
}

/// Whether the same call may be answered better in a moment: Stripe says so itself, or by the status.
fn comes_again(answer: &HttpResponse) -> bool {
    match answer.header("stripe-should-retry") {
        Some("true") => true,
        Some("false") => false,
        _ => matches!(answer.status, 409 | 429 | 500..),
    }
}

struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    /// The document of a success. A refusal is no answer to what was asked, so it is asked again later: an operator may
    /// have mended it by then.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Unknown> {
        if !(200..300).contains(&self.status) {
            let Refusal { error } = serde_json::from_slice(&self.body).unwrap_or_default();
            let (code, message) = (error.code.unwrap_or_default(), error.message.unwrap_or_default());
            return Err(Unknown::new(format!("Stripe answered {}: {} {code} {message}", self.status, error.r#type)));
        }
        serde_json::from_slice(&self.body).map_err(|error| Unknown::new(format!("Stripe's answer: {error}")))
    }

    fn refusal_code(&self) -> Option<String> {
        let refused = !(200..300).contains(&self.status);
        refused.then(|| serde_json::from_slice::<Refusal>(&self.body).unwrap_or_default().error.code).flatten()
    }
}
