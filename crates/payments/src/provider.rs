//! Payment providers: the trait and its implementations.
//!
//! Every call can be repeated and takes effect once. A call without a usable answer has an unknown outcome: it is
//! repeated, never treated as failed.

pub mod caller;
pub mod stripe;
pub mod webhook;

use std::future::Future;

use domain::{
    api::payments::is_kept_unchanged, ids::OrderNo, language::Language, money::Money, order::Order,
    webhook::PaymentProvider,
};

pub use self::{
    caller::{Caller, RetryPolicy},
    stripe::{SealAddress, Stripe},
    webhook::Webhook,
};
use crate::ledger::{refunds::Refund, sessions::DueSession};
use stores::http_client::HttpClient;

/// A payment provider.
pub trait Provider {
    /// Which provider this is: the order remembers it.
    fn name(&self) -> PaymentProvider;

    /// Opens a payment session for an order: the first one (`session_number` 1), or the next one after the last has
    /// ended. A repeated call with the same `session_number` returns the same session.
    fn open_session(
        &self,
        order: &Order,
        session_number: i64,
        shown: &Presentation,
    ) -> impl Future<Output = Result<OpenedSession, ProviderError>>;

    /// Ends a session that is not paid, and returns its status.
    fn close_session(&self, due: &DueSession) -> impl Future<Output = Result<SessionStatus, ProviderError>>;

    /// Requests a refund, or asks for its status if it was requested before.
    fn refund(&self, refund: &Refund) -> impl Future<Output = Result<RefundStatus, ProviderError>>;
}

/// An open payment session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// URL where the buyer pays.
    pub url: String,
    /// The provider's session id.
    pub session_id: String,
}

/// What a payment page shows of an order besides its number and price. The first checkout fixes it, so that a retry
/// sends the provider the same request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presentation {
    /// The item's name.
    pub name: String,
    /// URL of the item's picture, absolute or a path of the shop; may be empty.
    pub image: String,
    /// The buyer's language.
    pub language: Language,
    /// Whether the payment page asks for the delivery address.
    pub asks_address: bool,
}

impl Presentation {
    /// Absolute URL of the item's picture; `None` if it has none that a payment page can show.
    fn image_url(&self, shop_url: &str) -> Option<String> {
        match self.image.as_str() {
            path if path.starts_with('/') && !path.starts_with("//") => Some(format!("{shop_url}{path}")),
            url => (url.starts_with("https://") || url.starts_with("http://")).then(|| url.to_owned()),
        }
    }

    /// The order's page, to which the payment page links back.
    fn order_url(&self, shop_url: &str, order_no: &OrderNo) -> String {
        format!("{shop_url}{}", order_path(order_no))
    }
}

/// The path of the order's page.
#[must_use]
pub fn order_path(order_no: &OrderNo) -> String {
    format!("/order?order_no={order_no}")
}

/// Status of a payment session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStatus {
    /// Not paid, and can no longer be paid.
    Unpaid,
    /// Paid.
    Paid {
        /// The provider's payment id.
        payment_id: String,
        /// Amount paid.
        money: Money,
        /// The delivery address that the page asked for, encrypted; empty without one.
        sealed_address: String,
    },
    /// The buyer has confirmed the payment and the provider is processing it. A callback reports the result.
    Processing,
}

/// Status of a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundStatus {
    /// The provider has accepted the refund. A callback reports the result.
    Pending {
        /// The provider's refund id; empty if it has none.
        refund_id: String,
    },
    /// The money is returned.
    Succeeded {
        /// The provider's refund id.
        refund_id: String,
    },
    /// The provider could not refund. The next attempt is a new refund.
    Failed {
        /// The provider's refund id; empty if it made none.
        refund_id: String,
        /// Its reason.
        reason: String,
    },
}

/// No usable answer: the outcome is unknown, and the call has to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What is known about the cause, for the log.
    pub message: String,
    /// Milliseconds that the provider asks to wait before the next call.
    pub retry_after_ms: Option<i64>,
    /// Whether the same call is refused again until an operator has fixed the cause.
    pub is_refusal: bool,
}

/// Returns what a provider opened, if the ledger can keep its id unchanged and buyers can be sent to its page.
///
/// # Errors
/// [`ProviderError`] that says what is wrong: the outcome is unknown.
fn checked_session(session_id: String, url: String) -> Result<OpenedSession, ProviderError> {
    if url.starts_with("https://") || url.starts_with("http://") {
        Ok(OpenedSession { url, session_id: checked_id(session_id)? })
    } else {
        Err(ProviderError::new("the provider's answer: url is no https address"))
    }
}

/// Returns an id of a provider, if the ledger can keep it unchanged.
fn checked_id(id: String) -> Result<String, ProviderError> {
    if !id.is_empty() && is_kept_unchanged(&id) {
        return Ok(id);
    }
    Err(ProviderError::new("the provider's answer: an id is empty or too long"))
}

impl ProviderError {
    /// An error without a time for the next call.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after_ms: None, is_refusal: false }
    }

    /// A call that the provider refuses, or that cannot be made.
    #[must_use]
    pub fn refusal(message: impl Into<String>) -> Self {
        Self { is_refusal: true, ..Self::new(message) }
    }

    /// An answer with this status, which is no success.
    #[must_use]
    pub fn of_status(status: u16, message: String) -> Self {
        Self {
            is_refusal: matches!(status, 400..500) && !matches!(status, 408 | 409 | 425 | 429),
            ..Self::new(message)
        }
    }
}

/// The providers whose variables are set. One opens new sessions. An order that another one opened stays with that one,
/// until it is over.
pub struct Providers<C> {
    /// The provider that the variable `payment_provider` names.
    pub configured: PaymentProvider,
    /// A payment service of the shop, or the sandbox.
    pub webhook: Option<Webhook<C>>,
    /// Stripe.
    pub stripe: Option<Stripe<C>>,
}

enum Selected<'a, C> {
    Webhook(&'a Webhook<C>),
    Stripe(&'a Stripe<C>),
}

impl<C: HttpClient> Providers<C> {
    /// Returns the provider with this name; the configured one for an empty name.
    fn select(&self, name: &str) -> Result<Selected<'_, C>, ProviderError> {
        let provider = PaymentProvider::parse(name).unwrap_or(self.configured);
        let webhook = self.webhook.as_ref().filter(|webhook| webhook.name == provider).map(Selected::Webhook);
        let stripe = self.stripe.as_ref().filter(|_| provider == PaymentProvider::Stripe).map(Selected::Stripe);
        webhook.or(stripe).ok_or_else(|| {
            let name = provider.as_str();
            ProviderError::refusal(format!("{name} has the payment, and its variables are not set"))
        })
    }
}

impl<C: HttpClient> Provider for Providers<C> {
    fn name(&self) -> PaymentProvider {
        self.configured
    }

    async fn open_session(
        &self,
        order: &Order,
        session_number: i64,
        shown: &Presentation,
    ) -> Result<OpenedSession, ProviderError> {
        match self.select(self.configured.as_str())? {
            Selected::Webhook(webhook) => webhook.open_session(order, session_number, shown).await,
            Selected::Stripe(stripe) => stripe.open_session(order, session_number, shown).await,
        }
    }

    async fn close_session(&self, due: &DueSession) -> Result<SessionStatus, ProviderError> {
        match self.select(&due.provider)? {
            Selected::Webhook(webhook) => webhook.close_session(due).await,
            Selected::Stripe(stripe) => stripe.close_session(due).await,
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        match self.select(&refund.provider)? {
            Selected::Webhook(webhook) => webhook.refund(refund).await,
            Selected::Stripe(stripe) => stripe.refund(refund).await,
        }
    }
}
