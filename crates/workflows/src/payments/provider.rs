//! Who takes the money: one small trait, and those who implement it.
//!
//! Every call may be repeated: what it asks for is done once. What was not answered is unknown, never failed.

pub mod sandbox;
pub mod stripe;

use std::future::Future;

use domain::{money::Money, order::Order};

pub use self::{
    sandbox::Sandbox,
    stripe::{Patience, Stripe},
};
use crate::ledger::refunds::Refund;

/// A provider of payments.
pub trait Provider {
    /// Opens the payment session of an order, its first one or, where the last one ended, the next `attempt`; doing it
    /// again answers the same one.
    fn open(&self, order: &Order, attempt: i64) -> impl Future<Output = Result<Opened, Unknown>>;

    /// Asks how a session stands, and ends it if it was not paid.
    fn close(&self, session: &str) -> impl Future<Output = Result<Closed, Unknown>>;

    /// Asks for money back, or asks how that stands.
    fn refund(&self, refund: &Refund) -> impl Future<Output = Result<Refunded, Unknown>>;
}

/// A payment session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Where the buyer pays.
    pub url: String,
    /// Its id, where the provider has to be asked about it before its order is released.
    pub session: Option<String>,
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// Not paid, and it cannot be any more.
    Unpaid,
    /// Paid.
    Paid {
        /// The provider's id of the payment.
        payment: String,
        /// How much.
        money: Money,
    },
    /// The buyer has done their part, and the money is on its way: the provider calls back.
    Underway,
}

/// How a refund stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refunded {
    /// The provider has it, and calls back.
    Taken {
        /// The provider's id of it; empty where there is none.
        refund: String,
    },
    /// The money is back.
    Done {
        /// The provider's id of it.
        refund: String,
    },
    /// The provider could not; the next try is a new refund.
    Failed(String),
}

/// The provider did not say: it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Unknown {
    /// What is known.
    pub text: String,
    /// How long it asks to be left alone, in milliseconds.
    pub retry_after_ms: Option<i64>,
}

impl Unknown {
    /// What is known, and nothing of when to come back.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry_after_ms: None }
    }
}

/// The provider of the variable `payment_provider`.
pub enum AnyProvider<W> {
    /// Play money.
    Sandbox(Sandbox<W>),
    /// Stripe.
    Stripe(Stripe<W>),
}

impl<W: crate::http_client::HttpClient> Provider for AnyProvider<W> {
    async fn open(&self, order: &Order, attempt: i64) -> Result<Opened, Unknown> {
        match self {
            Self::Sandbox(sandbox) => sandbox.open(order, attempt).await,
            Self::Stripe(stripe) => stripe.open(order, attempt).await,
        }
    }

    async fn close(&self, session: &str) -> Result<Closed, Unknown> {
        match self {
            Self::Sandbox(sandbox) => sandbox.close(session).await,
            Self::Stripe(stripe) => stripe.close(session).await,
        }
    }

    async fn refund(&self, refund: &Refund) -> Result<Refunded, Unknown> {
        match self {
            Self::Sandbox(sandbox) => sandbox.refund(refund).await,
            Self::Stripe(stripe) => stripe.refund(refund).await,
        }
    }
}
