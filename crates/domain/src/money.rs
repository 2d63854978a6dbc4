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

/// An ISO 4217 code, in JSON Schemas.
pub struct Currency;

/// The decimals of a currency by ISO 4217, which say what its minor unit is: 2 for `EUR`, 0 for `JPY`. `None` if the code
/// is not that of a currency in which something has a price, such as `XXX`.
#[must_use]
pub fn decimals(code: &str) -> Option<u32> {
    let currency = iso_currency::Currency::from_code(code)?;
    let has_prices = !currency.is_special() && !currency.is_fund();
    currency.exponent().filter(|_| has_prices).map(u32::from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_codes_of_currencies_have_decimals() {
        for (code, expected) in [("EUR", 2), ("HUF", 2), ("COP", 2), ("JPY", 0), ("ISK", 0), ("KWD", 3), ("IQD", 3)] {
            assert_eq!(decimals(code), Some(expected), "{code}");
        }
        for code in ["", "eur", "ABC", "BTC", "XXX", "XTS", "XAU", "CLF", "EURO"] {
            assert_eq!(decimals(code), None, "{code}");
        }
    }

    /// The pages and the client format prices by a table of their own, because a browser's decimals are not those of the
    /// standard: 0 for HUF.
    #[test]
    fn the_client_counts_as_the_server_does() {
        let mut codes_by_decimals = BTreeMap::<u32, Vec<String>>::new();
        let letters = || 'A'..='Z';
        for code in letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| format!("{a}{b}{c}")))) {
            if let Some(decimals) = decimals(&code).filter(|decimals| *decimals != 2) {
                codes_by_decimals.entry(decimals).or_default().push(code);
            }
        }
        let lines =
            codes_by_decimals.iter().map(|(decimals, codes)| format!("  {decimals}: \"{}\",\n", codes.join(" ")));
        let table = format!("= {{\n{}}};", lines.collect::<String>());
        let client = include_str!("../../../clients/js/src/money.js");
        assert!(client.contains(&table), "clients/js/src/money.js has to contain {table}");
    }
}
