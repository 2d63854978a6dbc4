//! Payment providers: the trait and its implementations.
//!
//! Every call can be repeated and takes effect once. A call without a usable answer has an unknown outcome: it is
//! repeated, never treated as failed.

pub mod sandbox;
pub mod stripe;

use std::future::Future;

use domain::{money::Money, order::Order, webhook::PaymentProvider};

pub use self::{
    sandbox::Sandbox,
    stripe::{RetryPolicy, Stripe},
};
use crate::ledger::refunds::Refund;

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
    ) -> impl Future<Output = Result<OpenedSession, ProviderError>>;

    /// Ends a session that is not paid, and returns its status.
    fn close_session(&self, session_id: &str) -> impl Future<Output = Result<SessionStatus, ProviderError>>;

    /// Requests a refund, or asks for its status if it was requested before.
    fn refund(&self, refund: &Refund) -> impl Future<Output = Result<RefundStatus, ProviderError>>;
}

/// An open payment session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// URL where the buyer pays.
    pub url: String,
    /// The provider's session id; `None` if the provider need not be asked about the session before the order is
    /// released.
    pub session_id: Option<String>,
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
}

impl ProviderError {
    /// An error without a time for the next call.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after_ms: None }
    }
}

/// The provider that the variable `payment_provider` selects.
pub enum AnyProvider<C> {
    /// The sandbox, for development.
    Sandbox(Sandbox<C>),
    /// Stripe.
    Stripe(Stripe<C>),
}

impl<C: crate::http_client::HttpClient> Provider for AnyProvider<C> {
    fn name(&self) -> PaymentProvider {
        match self {
            Self::Sandbox(sandbox) => sandbox.name(),
            Self::Stripe(stripe) => stripe.name(),
        }
    }

    async fn open_session(&self, order: &Order, session_number: i64) -> Result<OpenedSession, ProviderError> {
        match self {
            Self::Sandbox(sandbox) => sandbox.open_session(order, session_number).await,
            Self::Stripe(stripe) => stripe.open_session(order, session_number).await,
        }
    }

    async fn close_session(&self, session_id: &str) -> Result<SessionStatus, ProviderError> {
        match self {
            Self::Sandbox(sandbox) => sandbox.close_session(session_id).await,
            Self::Stripe(stripe) => stripe.close_session(session_id).await,
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        match self {
            Self::Sandbox(sandbox) => sandbox.refund(refund).await,
            Self::Stripe(stripe) => stripe.refund(refund).await,
        }
    }
}
