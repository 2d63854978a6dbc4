//! Who takes the money: one small trait, and those who implement it.
//!
//! Every call may be repeated: what it asks for is done once. What was not answered is unknown, never failed.

pub mod sandbox;
pub mod stripe;

use std::future::Future;

use domain::{money::Money, order::Order};

pub use self::{
    sandbox::Sandbox,
    stripe::{RetryPolicy, Stripe},
};
use crate::ledger::refunds::Refund;

/// A provider of payments.
pub trait Provider {
    /// Opens the payment session of an order, its first one or, where the last one ended, the next `attempt`; doing it
    /// again answers the same one.
    fn open_session(&self, order: &Order, attempt: i64) -> impl Future<Output = Result<OpenedSession, ProviderError>>;

    /// Asks how a session stands, and ends it if it was not paid.
    fn close_session(&self, session_id: &str) -> impl Future<Output = Result<SessionStatus, ProviderError>>;

    /// Asks for money back, or asks how that stands.
    fn refund(&self, refund: &Refund) -> impl Future<Output = Result<RefundStatus, ProviderError>>;
}

/// A payment session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// Where the buyer pays.
    pub url: String,
    /// Its id, where the provider has to be asked about it before its order is released.
    pub session_id: Option<String>,
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStatus {
    /// Not paid, and it cannot be any more.
    Unpaid,
    /// Paid.
    Paid {
        /// The provider's id of the payment.
        payment_id: String,
        /// How much.
        money: Money,
    },
    /// The buyer has done their part, and the money is on its way: the provider calls back.
    Processing,
}

/// How a refund stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundStatus {
    /// The provider has it, and calls back.
    Pending {
        /// The provider's id of it; empty where there is none.
        refund_id: String,
    },
    /// The money is back.
    Succeeded {
        /// The provider's id of it.
        refund_id: String,
    },
    /// The provider could not; the next try is a new refund.
    Failed(String),
}

/// The provider did not say: it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What is known.
    pub message: String,
    /// How long it asks to be left alone, in milliseconds.
    pub retry_after_ms: Option<i64>,
}

impl ProviderError {
    /// What is known, and nothing of when to come back.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after_ms: None }
    }
}

/// The provider of the variable `payment_provider`.
pub enum AnyProvider<C> {
    /// Play money.
    Sandbox(Sandbox<C>),
    /// Stripe.
    Stripe(Stripe<C>),
}

impl<C: crate::http_client::HttpClient> Provider for AnyProvider<C> {
    async fn open_session(&self, order: &Order, attempt: i64) -> Result<OpenedSession, ProviderError> {
        match self {
            Self::Sandbox(sandbox) => sandbox.open_session(order, attempt).await,
            Self::Stripe(stripe) => stripe.open_session(order, attempt).await,
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
