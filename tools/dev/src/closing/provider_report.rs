//! What payment providers report about the money.
//!
//! Of Stripe it is the CSV of a balance report, `balance_change_from_activity.itemized` or `payout_reconciliation.itemized`
//! (docs.stripe.com/reports/report-types), with the columns `reporting_category`, `payment_intent_id`, `gross`, `currency`, and
//! for one sale `payment_metadata[order_no]`. Of a payment service it is the JSON of docs/payments.md.

use std::{collections::HashMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use iso_currency::Currency;
use serde::Deserialize;

/// Stripe's column with the order. It is empty for payments of another business with the account.
const ORDER_COLUMN: &str = "payment_metadata[order_no]";

/// A kind of movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Money came.
    Payment,
    /// It went back; below zero, the refund failed later.
    Refund,
    /// The payer disputes it; below zero, the shop has it again.
    Dispute,
}

/// Money that moved at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Movement {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The order; empty if the report does not name it.
    #[serde(default)]
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217, in upper case.
    pub currency: String,
}

/// What a provider reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whose books it compares with: `stripe` or `webhook`.
    pub provider: &'static str,
    /// The movements of payments, refunds and disputes.
    pub movements: Vec<Movement>,
    /// Whether it says which order a payment is for, if it is for one.
    pub names_orders: bool,
}

impl Report {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Self::parse(text.trim_start_matches('\u{feff}')).with_context(|| path.display().to_string())
    }

    /// Parses JSON, or else Stripe's CSV.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim_start().starts_with('[') {
            let movements: Vec<Movement> = serde_json::from_str(text)?;
            let names_orders = movements.is_empty() || movements.iter().any(|it| !it.order_no.is_empty());
            return Ok(Self { provider: "webhook", movements, names_orders });
        }
        let (mut movements, mut reader) = (Vec::new(), csv::Reader::from_reader(text.as_bytes()));
        let names_orders = reader.headers()?.iter().any(|name| name == ORDER_COLUMN);
        for row in reader.deserialize() {
            movements.extend(stripe_movement(&row?)?);
        }
        Ok(Self { provider: "stripe", movements, names_orders })
    }
}

/// The movement of a row of Stripe's report; `None` if it is none of a payment, such as a fee or a payout.
fn stripe_movement(row: &HashMap<String, String>) -> Result<Option<Movement>> {
    let column = |name: &str| row.get(name).with_context(|| format!("the report has no column {name}"));
    let (kind, sign) = match column("reporting_category")?.as_str() {
        "charge" => (Kind::Payment, 1),
        // The charge was reversed, or not all of it was captured: both are below zero.
        "charge_failure" | "partial_capture_reversal" => (Kind::Payment, 1),
        "refund" | "refund_failure" => (Kind::Refund, -1),
        "dispute" | "dispute_reversal" => (Kind::Dispute, -1),
        _ => return Ok(None),
    };
    let payment = column("payment_intent_id")?.clone();
    let gross = column("gross")?;
    // Amounts in the balance's currency; what the buyer paid, and got back, has columns of its own where another was paid in.
    let faced = |name: &str| row.get(name).filter(|text| !text.is_empty());
    let (text, currency) = match (kind, faced("customer_facing_amount"), faced("customer_facing_currency")) {
        (Kind::Payment | Kind::Refund, Some(amount), Some(currency)) => (amount, currency),
        _ => (gross, column("currency")?),
    };
    let currency = currency.to_ascii_uppercase();
    let amount = minor_units(text, &currency)?.abs() * if gross.starts_with('-') { -1 } else { 1 };
    let order_no = row.get(ORDER_COLUMN).cloned().unwrap_or_default();
    Ok(Some(Movement { kind, order_no, payment, amount: sign * amount, currency }))
}

/// The minor units of an amount in major units, such as `-19.99`.
fn minor_units(text: &str, currency: &str) -> Result<i64> {
    let wrong = || format!("{text} {currency} is no amount");
    let decimals = Currency::from_code(currency).and_then(Currency::exponent).with_context(wrong)?;
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(decimals.into()).collect();
    if whole.is_empty() || fraction.chars().skip(decimals.into()).any(|digit| digit != '0') {
        bail!(wrong());
    }
    format!("{whole}{kept}").parse().with_context(wrong)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::*;

    #[test]
    fn amounts_in_major_units_are_minor_units_by_iso_4217() {
        for (text, currency, expected) in [
            ("19.99", "EUR", 1_999),
            ("-0.50", "EUR", -50),
            ("4500", "JPY", 4_500),
            ("1.99", "KWD", 1_990),
            ("45.00", "ISK", 45),
        ] {
            assert_eq!(minor_units(text, currency).unwrap(), expected, "{text} {currency}");
        }
        for (text, currency) in [("1.999", "EUR"), ("", "EUR"), ("1", "???")] {
            assert!(minor_units(text, currency).is_err(), "{text} {currency}");
        }
    }

    #[test]
    fn a_row_of_stripe_is_a_movement_in_the_buyers_currency() {
        let text = "balance_transaction_id,currency,gross,reporting_category,payment_intent_id,customer_facing_amount,\
             customer_facing_currency,payment_metadata[order_no]\n\
             txn_1,eur,9.20,charge,pi_1,10.00,usd,a.1\ntxn_2,eur,-9.20,refund,pi_1,10.00,usd,a.1\n\
             txn_3,eur,9.20,refund_failure,pi_1,10.00,usd,a.1\ntxn_4,eur,-10.00,dispute,pi_2,,,\n\
             txn_5,eur,-0.30,fee,,,,\ntxn_6,eur,-100.00,payout,,,,\n";
        let movement = |kind, order_no: &str, payment: &str, amount, currency: &str| {
            let [order_no, payment, currency] = [order_no, payment, currency].map(str::to_owned);
            Movement { kind, order_no, payment, amount, currency }
        };
        let expected = [
            movement(Kind::Payment, "a.1", "pi_1", 1_000, "USD"),
            movement(Kind::Refund, "a.1", "pi_1", 1_000, "USD"),
            movement(Kind::Refund, "a.1", "pi_1", -1_000, "USD"),
            movement(Kind::Dispute, "", "pi_2", 1_000, "EUR"),
        ];
        assert_eq!(Report::parse(text).unwrap().movements, expected);
        assert!(Report::parse("a,b\n1,2\n").is_err());
    }

    #[test]
    fn a_payment_service_reports_json() {
        let text =
            r#" [{"type": "refund", "order_no": "a.1", "payment": "p", "id": "r", "amount": 5, "currency": "EUR"}]"#;
        let report = Report::parse(text).unwrap();
        assert_eq!(
            (report.provider, report.movements[0].kind, report.movements[0].amount),
            ("webhook", Kind::Refund, 5)
        );
    }
}
