//! Stripe: Checkout Sessions and Refunds.
//!
//! Requests follow Stripe's API reference: form-encoded, with a pinned API version, and an idempotency key on every
//! request that makes something.

use std::rc::Rc;

use domain::{
    address::Address,
    ids::OrderNo,
    money::Money,
    order::Order,
    stripe::{API_VERSION, Object, to_amount},
    webhook::PaymentProvider,
};
use form_urlencoded::Serializer;
use serde::{Deserialize, de::DeserializeOwned};
use stores::http_client::{HttpClient, HttpRequest, HttpResponse};

use super::{
    OpenedSession, Presentation, Provider, ProviderError, RefundStatus, SessionStatus, caller::Caller, checked_session,
};
use crate::ledger::{refunds::Refund, sessions::DueSession};

/// Seconds from the payment deadline to the expiry of a session. Stripe accepts an expiry between 30 minutes and 24
/// hours ahead. The application ends the session earlier.
const SESSION_EXTRA_SECONDS: i64 = 31 * 60;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Languages of Stripe's payment page, by their values of `locale`.
const LOCALES: [&str; 40] = [
    "bg", "cs", "da", "de", "el", "en", "en-GB", "es", "es-419", "et", "fi", "fil", "fr", "fr-CA", "hr", "hu", "id",
    "it", "ja", "ko", "lt", "lv", "ms", "mt", "nb", "nl", "pl", "pt", "pt-BR", "ro", "ru", "sk", "sl", "sv", "th",
    "tr", "vi", "zh", "zh-HK", "zh-TW",
];

/// Longest URL of a picture that Stripe accepts.
const MAX_IMAGE_BYTES: usize = 2_048;

/// The Stripe provider.
pub struct Stripe<C> {
    /// Sends the requests.
    pub caller: Caller<C>,
    /// Base URL of the API, without a path.
    pub api_url: String,
    /// Secret API key.
    pub api_key: String,
    /// Payment methods of the page, by Stripe's names, separated by spaces; those of Stripe's dashboard if it is empty.
    pub payment_methods: String,
    /// Public base URL of the shop, without a path. The payment page links back to it.
    pub shop_url: String,
    /// Countries that a buyer can choose where the page asks for the address, by their codes.
    pub shipping_countries: Vec<String>,
    /// Encrypts the address of an order.
    pub seal: SealAddress,
}

/// Encrypts the delivery address of an order; `None` without a key.
pub type SealAddress = Rc<dyn Fn(&OrderNo, &Address) -> Option<String>>;

#[derive(Deserialize)]
struct Refunds {
    data: Vec<Object>,
}

#[derive(Deserialize)]
struct PaymentIntent {
    latest_charge: Object,
}

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
    param: Option<String>,
    message: Option<String>,
}

impl<C: HttpClient> Provider for Stripe<C> {
    fn name(&self) -> PaymentProvider {
        PaymentProvider::Stripe
    }

    async fn open_session(
        &self,
        order: &Order,
        session_number: i64,
        shown: &Presentation,
    ) -> Result<OpenedSession, ProviderError> {
        let idempotency_key = match session_number {
            1 => format!("checkout_{}", order.order_no),
            _ => format!("checkout_{}_{session_number}", order.order_no),
        };
        let form = self.session_form(order, session_number, shown)?;
        let session: Object = self.call("POST", "/v1/checkout/sessions", form, &idempotency_key).await?.parse()?;
        checked_session(session.id, session.url.unwrap_or_default())
    }

    async fn close_session(
        &self,
        DueSession { id: session_id, order_no, .. }: &DueSession,
    ) -> Result<SessionStatus, ProviderError> {
        let path = format!("/v1/checkout/sessions/{session_id}");
        let object: Object = self.call("GET", &path, String::new(), "").await?.parse()?;
        if object.status.as_deref() != Some("open") {
            return self.session_status(order_no, &object);
        }
        let ended = match self.call("POST", &format!("{path}/expire"), String::new(), "").await? {
            response if (200..300).contains(&response.status) => response,
            // The session was paid or expired between the two calls.
            _ => self.call("GET", &path, String::new(), "").await?,
        };
        self.session_status(order_no, &ended.parse()?)
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        let known = self.find_part(refund).await?;
        let refund = &Refund { refund: known.unwrap_or_else(|| refund.refund.clone()), ..refund.clone() };
        let mut response = if refund.refund.is_empty() {
            self.create_refund(refund, &refund.rest(), "").await?
        } else {
            self.call("GET", &format!("/v1/refunds/{}", refund.refund), String::new(), "").await?
        };
        // No callback has told of a part that was refunded in Stripe's dashboard.
        if refund.part.is_empty() && response.error().is_some_and(|error| error.param.as_deref() == Some("amount")) {
            let left = self.left_of(refund).await?;
            if left.amount <= 0 {
                return Ok(RefundStatus::Succeeded { refund_id: String::new() });
            }
            response = self.create_refund(refund, &left, &format!("_{}", left.amount)).await?;
        }
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

/// Names an attempt at a part in the metadata of its refund.
fn part_attempt(part: &str, failures: i64) -> String {
    format!("{part}_{failures}")
}

fn stripe_amount(money: &Money) -> Result<i64, ProviderError> {
    let Money { amount, currency } = money;
    let refusal = || ProviderError::refusal(format!("Stripe charges no {amount} minor units of {currency}"));
    to_amount(money).ok_or_else(refusal)
}

impl<C: HttpClient> Stripe<C> {
    async fn create_refund(
        &self,
        Refund { order_no, payment, failures, part, .. }: &Refund,
        money: &Money,
        key_suffix: &str,
    ) -> Result<StripeResponse, ProviderError> {
        let mut form = Serializer::new(String::new());
        form.append_pair("payment_intent", payment);
        form.append_pair("amount", &stripe_amount(money)?.to_string());
        form.append_pair("metadata[order_no]", order_no);
        let idempotency_key = format!("refund_{order_no}_{payment}_{failures}{key_suffix}");
        if part.is_empty() {
            return self.call("POST", "/v1/refunds", form.finish(), &idempotency_key).await;
        }
        form.append_pair("metadata[part]", &part_attempt(part, *failures));
        let idempotency_key = format!("{idempotency_key}_{part}");
        // Under another key it could be made twice.
        self.send(&self.request("POST", "/v1/refunds", form.finish(), &idempotency_key)).await
    }

    /// Looks for the refund of a part that was requested before without an answer: Stripe forgets idempotency keys after a
    /// day.
    async fn find_part(&self, refund: &Refund) -> Result<Option<String>, ProviderError> {
        let Refund { part, payment, failures, attempts, .. } = refund;
        if part.is_empty() || !refund.refund.is_empty() || *attempts < 2 {
            return Ok(None);
        }
        let path = format!("/v1/refunds?payment_intent={payment}&limit=100");
        let list: Refunds = self.call("GET", &path, String::new(), "").await?.parse()?;
        let wanted = part_attempt(part, *failures);
        let is_wanted = |object: &&Object| object.metadata.as_ref().and_then(|it| it.get("part")) == Some(&wanted);
        Ok(list.data.iter().find(is_wanted).map(|object| object.id.clone()))
    }

    /// What Stripe has not refunded of a payment yet.
    async fn left_of(&self, Refund { payment, money, .. }: &Refund) -> Result<Money, ProviderError> {
        let path = format!("/v1/payment_intents/{payment}?expand%5B%5D=latest_charge");
        let intent: PaymentIntent = self.call("GET", &path, String::new(), "").await?.parse()?;
        Ok(Money::new(money.amount - intent.latest_charge.money().amount, &money.currency))
    }

    fn session_status(&self, order_no: &OrderNo, session: &Object) -> Result<SessionStatus, ProviderError> {
        Ok(match (session.payment_status.as_deref(), session.status.as_deref()) {
            (Some("paid"), _) => {
                let sealed_address = match session.address() {
                    // The address would be lost: the session is asked about again.
                    Some(address) => (self.seal)(order_no, &address)
                        .ok_or_else(|| ProviderError::new("address_key holds no key for the address"))?,
                    None => String::new(),
                };
                SessionStatus::Paid { payment_id: session.payment_id(), money: session.money(), sealed_address }
            }
            (_, Some("expired")) => SessionStatus::Unpaid,
            _ => SessionStatus::Processing,
        })
    }

    /// Form fields of an order's session.
    ///
    /// They depend only on values that do not change before the order has a session, so that a retry sends the same
    /// request. For a later session the hold may have been extended already, or may be extended soon: such a session
    /// gets no expiry, and the application ends it.
    fn session_form(&self, order: &Order, session_number: i64, shown: &Presentation) -> Result<String, ProviderError> {
        let order_no = order.order_no.to_string();
        let Money { amount, currency } = &order.money;
        let divisible = order.quantity > 0 && amount % order.quantity == 0;
        let (quantity, unit_price) = if divisible { (order.quantity, amount / order.quantity) } else { (1, *amount) };
        let unit_amount = stripe_amount(&Money::new(unit_price, currency))?;
        let order_url = shown.order_url(&self.shop_url, &order.order_no);
        let mut form = Serializer::new(String::new());
        form.append_pair("mode", "payment");
        form.append_pair("client_reference_id", &order_no);
        for (index, method) in self.payment_methods.split_whitespace().enumerate() {
            form.append_pair(&format!("payment_method_types[{index}]"), method);
            if method == "wechat_pay" {
                form.append_pair("payment_method_options[wechat_pay][client]", "web");
            }
        }
        if shown.asks_address && self.shipping_countries.is_empty() {
            let message = "the sale's address is asked for by Stripe's page, and stripe_shipping_countries is empty";
            return Err(ProviderError::refusal(message));
        }
        for (index, country) in self.shipping_countries.iter().filter(|_| shown.asks_address).enumerate() {
            form.append_pair(&format!("shipping_address_collection[allowed_countries][{index}]"), country);
        }
        form.append_pair("line_items[0][quantity]", &quantity.to_string());
        form.append_pair("line_items[0][price_data][currency]", &currency.to_ascii_lowercase());
        form.append_pair("line_items[0][price_data][unit_amount]", &unit_amount.to_string());
        form.append_pair("line_items[0][price_data][product_data][name]", &shown.name);
        if let Some(image) = shown.image_url(&self.shop_url).filter(|url| url.len() <= MAX_IMAGE_BYTES) {
            form.append_pair("line_items[0][price_data][product_data][images][0]", &image);
        }
        form.append_pair("locale", shown.language.best_of(LOCALES).unwrap_or("auto"));
        form.append_pair("metadata[order_no]", &order_no);
        form.append_pair("payment_intent_data[metadata][order_no]", &order_no);
        form.append_pair("success_url", &format!("{order_url}&payment=done"));
        form.append_pair("cancel_url", &order_url);
        let ends_at = order.pay_by.unwrap_or_default().plus(SESSION_EXTRA_SECONDS * 1_000);
        if session_number == 1 && ends_at.0 - order.created_at.0 < DAY_MS {
            form.append_pair("expires_at", &(ends_at.0 / 1_000).to_string());
        }
        Ok(form.finish())
    }

    /// Sends a request. Stripe keeps the first answer to an idempotency key for a day, errors included; a request that
    /// cannot have another answer is sent again under a key of this minute. Done twice, it does no harm: nobody knows the
    /// page of a session whose answer was lost, and a payment is refunded whole, which Stripe does once.
    async fn call(
        &self,
        method: &'static str,
        path: &str,
        form: String,
        idempotency_key: &str,
    ) -> Result<StripeResponse, ProviderError> {
        let mut request = self.request(method, path, form, idempotency_key);
        let mut response = self.send(&request).await?;
        if response.is_bound_to_key() {
            let minute = (self.caller.clock)().0 / 60_000;
            request.headers.retain(|(name, _)| *name != IDEMPOTENCY_KEY);
            request.headers.push((IDEMPOTENCY_KEY, format!("{idempotency_key}_at_{minute}")));
            response = self.send(&request).await?;
        }
        Ok(response)
    }

    async fn send(&self, request: &HttpRequest) -> Result<StripeResponse, ProviderError> {
        let response = self.caller.send("Stripe", request, should_retry).await?;
        Ok(StripeResponse { status: response.status, is_replay: is_replay(&response), body: response.body })
    }

    fn request(&self, method: &'static str, path: &str, form: String, idempotency_key: &str) -> HttpRequest {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.api_key)),
            ("stripe-version", API_VERSION.to_owned()),
            ("accept", "application/json".to_owned()),
            ("user-agent", "stampede".to_owned()),
        ];
        if method == "POST" {
            headers.push(("content-type", "application/x-www-form-urlencoded".to_owned()));
        }
        if !idempotency_key.is_empty() {
            headers.push((IDEMPOTENCY_KEY, idempotency_key.to_owned()));
        }
        let url = format!("{}{path}", self.api_url);
        HttpRequest { method, url, headers, body: form, timeout_ms: self.caller.retry.timeout_ms }
    }
}

/// Whether a retry may get a better answer: by Stripe's own header, otherwise by the status.
fn should_retry(response: &HttpResponse) -> bool {
    !is_replay(response)
        && match response.header("stripe-should-retry") {
            Some("true") => true,
            Some("false") => false,
            _ => matches!(response.status, 409 | 429 | 500..),
        }
}

/// Whether Stripe kept this answer from an earlier request with the same idempotency key.
fn is_replay(response: &HttpResponse) -> bool {
    response.header("idempotent-replayed") == Some("true")
}

struct StripeResponse {
    status: u16,
    is_replay: bool,
    body: Vec<u8>,
}

impl StripeResponse {
    /// Parses the body of a successful response. An error status becomes a [`ProviderError`], and the call is repeated
    /// later: an operator may have fixed the cause by then.
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ProviderError> {
        if let Some(error) = self.error() {
            let (code, message) = (error.code.unwrap_or_default(), error.message.unwrap_or_default());
            let message = format!("Stripe answered {}: {} {code} {message}", self.status, error.r#type);
            return Err(ProviderError::of_status(self.status, message));
        }
        serde_json::from_slice(&self.body).map_err(|error| ProviderError::new(format!("Stripe's answer: {error}")))
    }

    fn error_code(&self) -> Option<String> {
        self.error()?.code
    }

    /// Whether only another idempotency key gets another answer: Stripe kept this error, or had the key with another
    /// request, before an operator changed a variable.
    fn is_bound_to_key(&self) -> bool {
        self.error().is_some_and(|error| self.is_replay || error.r#type == "idempotency_error")
    }

    fn error(&self) -> Option<ErrorDetail> {
        let is_error = !(200..300).contains(&self.status);
        is_error.then(|| serde_json::from_slice::<ErrorBody>(&self.body).unwrap_or_default().error)
    }
}
