//! Money.

use serde::Serialize;

/// A sum of money.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Money {
    /// In minor units of the currency, such as cents.
    pub amount: i64,
    /// ISO 4217, upper case; from a provider, whatever it said.
    pub currency: String,
}

impl Money {
    /// So many minor units of a currency.
    #[must_use]
    pub fn new(amount: i64, currency: impl Into<String>) -> Self {
        Self { amount, currency: currency.into() }
    }
}
