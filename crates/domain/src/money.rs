//! Amounts of money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An amount in a currency.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Money {
    /// Amount in minor units of the currency, such as cents.
    pub amount: i64,
    /// ISO 4217 code in upper case. A value from a provider's callback is not validated.
    pub currency: String,
}

impl Money {
    /// Creates an amount from minor units and a currency code.
    #[must_use]
    pub fn new(amount: i64, currency: impl Into<String>) -> Self {
        Self { amount, currency: currency.into() }
    }
}
