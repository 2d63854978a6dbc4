//! Reads Stripe's objects and callback events.
//!
//! From Stripe's API reference: events may arrive in any order and more than once; a reference to another object is its
//! id or, if expanded, the object itself.

mod disputes;

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    address::Address,
    http::{body, problem::Problem},
    money::Money,
    webhook::{PaymentProvider, ProviderCallback},
};

pub use disputes::parse_dispute;

/// The Stripe API version that requests ask for.
pub const API_VERSION: &str = "2026-10-28.endive";

#[derive(Deserialize)]
struct Event {
    id: String,
    r#type: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Object,
}

/// The fields that are used of a Checkout Session, a Refund or a Charge.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    /// The object's id.
    pub id: String,
    /// Metadata set when the object was created: contains `order_no`.
    pub metadata: Option<HashMap<String, String>>,
    /// A session's payment page.
    pub url: Option<String>,
    payment_intent: Option<Expandable>,
    /// A session's payment: `paid`, `unpaid` or `no_payment_required`.
    pub payment_status: Option<String>,
    /// A session's amount.
    pub amount_total: Option<i64>,
    /// Amount of a refund or charge.
    pub amount: Option<i64>,
    /// Refunded part of a charge.
    pub amount_refunded: Option<i64>,
    /// ISO 4217 code in lower case.
    pub currency: Option<String>,
    /// `open`, `complete` or `expired` for a session; `pending`, `succeeded`, `failed` and others for a refund.
    pub status: Option<String>,
    /// Why a refund failed.
    pub failure_reason: Option<String>,
    collected_information: Hidden,
    /// Where API versions before 2025-03-31 have the delivery: a webhook endpoint may have one.
    shipping_details: Hidden,
}

/// Where personal data is read from. It cannot reach a log.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Hidden(Value);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "must be an id or an object with an id")]
enum Expandable {
    Id(String),
    Object { id: String },
}

impl Object {
    /// Id of the payment intent; empty if there is none.
    #[must_use]
    pub fn payment_id(&self) -> String {
        match &self.payment_intent {
            Some(Expandable::Id(id) | Expandable::Object { id }) => id.clone(),
            None => String::new(),
        }
    }

    /// The order number; empty if the object names none. Only the holder of the API key writes metadata. A session's
    /// `client_reference_id` has the order number, too, but a payment link takes it from its URL, so that a buyer could
    /// pay an order and another item of the same price at once.
    #[must_use]
    pub fn order_no(&self) -> String {
        self.metadata.as_ref().and_then(|metadata| metadata.get("order_no")).cloned().unwrap_or_default()
    }

    /// The delivery address that a session's page asked for, with the names of the lines of the order page's form.
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        let collected = self.collected_information.0.get("shipping_details");
        let delivery = collected.into_iter().chain([&self.shipping_details.0]).find(|delivery| delivery.is_object())?;
        let line = |pointer: &str| delivery.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let street = [line("/address/line1"), line("/address/line2")].join(", ");
        Address::collected([
            ("name", line("/name")),
            ("street", street.trim_end_matches(", ").to_owned()),
            ("postal_code", line("/address/postal_code")),
            ("city", line("/address/city")),
            ("state", line("/address/state")),
            ("country", line("/address/country")),
        ])
    }

    /// The amount, with the currency in upper case. For a charge this is the refunded amount.
    #[must_use]
    pub fn money(&self) -> Money {
        let amount = self.amount_refunded.or(self.amount_total).or(self.amount).unwrap_or_default();
        let currency = self.currency.clone().unwrap_or_default().to_ascii_uppercase();
        Money::new(from_amount(amount, &currency), currency)
    }
}

/// How Stripe counts a currency, whose minor units are those of ISO 4217.
struct Units {
    /// Stripe charges multiples of so many minor units.
    step: i64,
    /// `stripe` of Stripe's units are `minor` minor units.
    stripe: i64,
    minor: i64,
}

impl Units {
    fn of(currency: &str) -> Self {
        let (step, stripe, minor) = match currency {
            "ISK" | "UGX" => (1, 100, 1),
            "MGA" => (100, 1, 100),
            "BHD" | "JOD" | "KWD" | "OMR" | "TND" => (10, 1, 1),
            _ => (1, 1, 1),
        };
        Self { step, stripe, minor }
    }
}

/// The minor units of a currency of which Stripe charges multiples only.
#[must_use]
pub fn step(currency: &str) -> i64 {
    Units::of(currency).step
}

/// The least that Stripe charges in a currency, in its minor units; 0 where it names no minimum. A charge that Stripe converts
/// must reach the minimum of the account's currency, which is not known here. From Stripe's "Supported currencies", section
/// "Minimum and maximum charge amounts" (docs.stripe.com/currencies).
#[must_use]
pub fn minimum(currency: &str) -> i64 {
    match currency {
        "GBP" => 30,
        "AUD" | "BRL" | "CAD" | "CHF" | "EUR" | "INR" | "JPY" | "NZD" | "SGD" | "USD" => 50,
        "BGN" => 100,
        "AED" | "MYR" | "PLN" | "RON" => 200,
        "DKK" => 250,
        "NOK" | "SEK" => 300,
        "HKD" => 400,
        "MXN" | "THB" => 1_000,
        "CZK" => 1_500,
        "HUF" => 17_500,
        _ => 0,
    }
}

/// Stripe's amount of this money; `None` if Stripe charges no such amount.
#[must_use]
pub fn to_amount(Money { amount, currency }: &Money) -> Option<i64> {
    let units = Units::of(currency);
    if amount % units.step != 0 {
        return None;
    }
    (amount / units.minor).checked_mul(units.stripe)
}

/// The minor units of Stripe's amount, without a remainder: what is paid is not less.
fn from_amount(amount: i64, currency: &str) -> i64 {
    let units = Units::of(currency);
    (amount / units.stripe).saturating_mul(units.minor)
}

/// Parses the body of a verified callback, and the delivery address in it, if Stripe's page asked for one. Returns `None` for
/// an event that changes no order of this app.
///
/// # Errors
/// [`Code::InvalidRequest`](crate::http::problem::Code::InvalidRequest) if the body is not a Stripe event.
pub fn parse_event(bytes: &[u8]) -> Result<Option<(ProviderCallback, Option<Address>)>, Problem> {
    let kind = body::parse::<EventType>(bytes)?.r#type;
    if !HANDLED_TYPES.contains(&kind.as_str()) {
        return Ok(None);
    }
    let Event { id, r#type, data: Data { object } } = body::parse(bytes)?;
    let status = object.status.as_deref();
    let paid = object.payment_status.as_deref() == Some("paid");
    let kind = match (r#type.as_str(), status) {
        ("checkout.session.completed", _) if paid => "payment.succeeded",
        ("checkout.session.async_payment_succeeded", _) => "payment.succeeded",
        // The session is complete but its payment failed, or it expired: it can no longer be paid.
        ("checkout.session.async_payment_failed" | "checkout.session.expired", _) => "session.ended",
        // It names the sum of the charge's refunds: all of it, or a part.
        ("charge.refunded", _) => "refund.succeeded",
        ("refund.failed", _) => "refund.failed",
        ("refund.created" | "refund.updated" | "charge.refund.updated", Some("succeeded")) => "refund.succeeded",
        ("refund.updated" | "charge.refund.updated", Some("failed" | "canceled")) => "refund.failed",
        _ => return Ok(None),
    };
    let (order_no, payment_id, money) = (object.order_no(), object.payment_id(), object.money());
    // The app names the order on every session, payment and refund that it makes. What names none belongs to another
    // business of the account, or is a refund from the dashboard, of which the charge tells. Only a refund that failed is
    // parked for an operator: the money is not back.
    if order_no.is_empty() && kind != "refund.failed" {
        return Ok(None);
    }
    // A charge keeps its id over several refunds; only a refund's own id identifies one refund attempt.
    let is_refund = kind.starts_with("refund.") && r#type != "charge.refunded";
    let refund_id = if is_refund { object.id.clone() } else { String::new() };
    let address = object.address().filter(|_| kind == "payment.succeeded");
    let is_session = r#type.starts_with("checkout.session.");
    let session_id = if is_session { object.id } else { String::new() };
    let (kind, provider, sealed_address) = (kind.to_owned(), Some(PaymentProvider::Stripe), String::new());
    let callback =
        ProviderCallback { id, kind, order_no, payment_id, money, refund_id, session_id, provider, sealed_address };
    Ok(Some((callback, address)))
}

#[derive(Deserialize)]
struct EventType {
    r#type: String,
}

const HANDLED_TYPES: [&str; 9] = [
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
    "checkout.session.expired",
    "charge.refunded",
    "charge.refund.updated",
    "refund.created",
    "refund.updated",
    "refund.failed",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(r#type: &str, object: &Value) -> Option<String> {
        let mut object = object.clone();
        if object.get("metadata").is_none() {
            object["metadata"] = json!({"order_no": "a.b"});
        }
        let body = json!({"id": "evt_1", "type": r#type, "data": {"object": object}}).to_string();
        parse_event(body.as_bytes()).expect("an event").map(|(event, _)| event.kind)
    }

    #[test]
    fn only_a_paid_session_is_a_payment() {
        let session = json!({"id": "cs_1", "metadata": {"order_no": "a.b"}, "payment_intent": "pi_1",
            "payment_status": "paid", "amount_total": 500, "currency": "eur", "status": "complete"});
        let body =
            json!({"id": "evt_1", "type": "checkout.session.completed", "data": {"object": session}}).to_string();
        let expected = ProviderCallback {
            id: "evt_1".to_owned(),
            kind: "payment.succeeded".to_owned(),
            order_no: "a.b".to_owned(),
            payment_id: "pi_1".to_owned(),
            session_id: "cs_1".to_owned(),
            money: Money::new(500, "EUR"),
            provider: Some(PaymentProvider::Stripe),
            ..ProviderCallback::default()
        };
        assert_eq!(parse_event(body.as_bytes()).expect("an event"), Some((expected, None)));
        assert_eq!(kind("checkout.session.completed", &json!({"payment_status": "unpaid"})), None);
        let later = kind("checkout.session.async_payment_succeeded", &json!({"payment_status": "paid"}));
        assert_eq!(later.as_deref(), Some("payment.succeeded"));
    }

    #[test]
    fn a_payment_has_the_address_that_the_page_asked_for() {
        let delivery = json!({"name": "Ada", "address": {"line1": "1 Mill Lane", "line2": "Flat 2", "city": "London",
            "postal_code": "N1 9GU", "state": null, "country": "GB"}});
        let lines = json!({"name": "Ada", "street": "1 Mill Lane, Flat 2", "city": "London", "postal_code": "N1 9GU", "country": "GB"});
        let expected = Address::parse(lines.as_object().expect("lines")).expect("an address");
        let session = |status: &str, member: Value| {
            let mut session = json!({"metadata": {"order_no": "a.b"}, "payment_status": status});
            session.as_object_mut().expect("an object").extend(member.as_object().expect("an object").clone());
            session
        };
        let found = |r#type: &str, object: Value| {
            let body = json!({"id": "evt_1", "type": r#type, "data": {"object": object}}).to_string();
            parse_event(body.as_bytes()).expect("an event").and_then(|(_, address)| address)
        };
        let collected = json!({"collected_information": {"shipping_details": delivery}});
        for member in [&collected, &json!({"collected_information": null, "shipping_details": delivery})] {
            let address = found("checkout.session.completed", session("paid", member.clone()));
            assert_eq!(address.as_ref(), Some(&expected), "{member}");
        }
        assert_eq!(found("checkout.session.completed", session("paid", json!({"collected_information": null}))), None);
        assert_eq!(found("checkout.session.expired", session("unpaid", collected)), None);
    }

    /// The buyer of a payment link of the same Stripe account chooses `client_reference_id` in its URL.
    #[test]
    fn only_the_metadata_names_the_order() {
        for metadata in [Value::Null, json!({}), json!({"order_no": "c.d"})] {
            let object = json!({"client_reference_id": "a.b", "metadata": metadata});
            let order_no = serde_json::from_value::<Object>(object).expect("an object").order_no();
            assert_eq!(order_no, metadata["order_no"].as_str().unwrap_or_default());
        }
    }

    /// Whoever opens a payment link of the same account makes a session, which expires.
    #[test]
    fn events_that_name_no_order_are_not_of_this_app_unless_money_is_not_back() {
        for metadata in [Value::Null, json!({}), json!({"order_no": ""})] {
            let object = |status: &str| json!({"metadata": metadata, "status": status, "payment_status": "paid", "refunded": true});
            for name in HANDLED_TYPES {
                let failed = (name != "refund.created" && name.contains("refund.")).then(|| "refund.failed".to_owned());
                assert_eq!(kind(name, &object("failed")), failed, "{name}");
                let failed = (name == "refund.failed").then(|| "refund.failed".to_owned());
                assert_eq!(kind(name, &object("succeeded")), failed, "{name}");
            }
        }
    }

    #[test]
    fn amounts_are_in_the_units_that_stripe_counts_in() {
        let amounts = [
            ("EUR", 1_999, 1_999),
            ("HUF", 4_500_000, 4_500_000),
            ("JPY", 1_999, 1_999),
            ("KWD", 1_990, 1_990),
            ("ISK", 4_500, 450_000),
            ("UGX", 4_500, 450_000),
            ("MGA", 450_000, 4_500),
        ];
        for (currency, minor_units, amount) in amounts {
            let money = Money::new(minor_units, currency);
            assert_eq!(to_amount(&money), Some(amount), "{currency}");
            let object = json!({"amount": amount, "currency": currency.to_ascii_lowercase()});
            let object: Object = serde_json::from_value(object).expect("an object");
            assert_eq!(object.money(), money);
        }
        for (currency, minor_units) in [("KWD", 1_999), ("MGA", 450_050), ("ISK", i64::MAX)] {
            assert_eq!(to_amount(&Money::new(minor_units, currency)), None, "{currency}");
        }
        assert_eq!((from_amount(450_099, "ISK"), from_amount(i64::MAX, "MGA")), (4_500, i64::MAX));
    }

    #[test]
    fn the_least_amount_is_in_minor_units_and_a_multiple_of_what_is_charged() {
        let least = ["EUR", "GBP", "JPY", "HUF", "KWD"].map(minimum);
        assert_eq!(least, [50, 30, 50, 17_500, 0]);
    }

    #[test]
    fn a_charge_reports_the_sum_of_its_refunds() {
        for amount in [100, 500] {
            let charge =
                json!({"metadata": {"order_no": "a.b"}, "amount": 500, "amount_refunded": amount, "currency": "eur"});
            let body = json!({"id": "evt_1", "type": "charge.refunded", "data": {"object": charge}}).to_string();
            let (callback, _) = parse_event(body.as_bytes()).expect("an event").expect("of this app");
            assert_eq!((callback.kind.as_str(), callback.money), ("refund.succeeded", Money::new(amount, "EUR")));
        }
        for name in ["refund.updated", "charge.refund.updated"] {
            assert_eq!(kind(name, &json!({"status": "succeeded"})).as_deref(), Some("refund.succeeded"));
            assert_eq!(kind(name, &json!({"status": "failed"})).as_deref(), Some("refund.failed"));
            assert_eq!(kind(name, &json!({"status": "pending"})), None);
        }
        assert_eq!(kind("refund.failed", &json!({"status": "failed"})).as_deref(), Some("refund.failed"));
    }

    #[test]
    fn ids_are_read_from_expanded_objects_and_unknown_members_are_ignored() {
        let object: Object =
            serde_json::from_value(json!({"payment_intent": {"id": "pi_2", "x": 1}, "metadata": {"order_no": "a.b"}}))
                .expect("an object");
        assert_eq!((object.payment_id().as_str(), object.order_no().as_str()), ("pi_2", "a.b"));
        assert_eq!(kind("customer.created", &json!({"metadata": null, "status": 7})), None);
        assert!(parse_event(b"{}").is_err() && parse_event(b"").is_err());
        assert!(parse_event(br#"{"type":"refund.updated"}"#).is_err());
    }
}
