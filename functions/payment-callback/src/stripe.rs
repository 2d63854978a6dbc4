//! `POST /api/payments/stripe`: Stripe's own signature and shapes.

use serde::Deserialize;
use stampede_domain::{
    body,
    webhook::{Payment, verify_stripe},
};
use stampede_platform::{
    clock, config,
    http::{Call, Failure},
};

use crate::routes::unsigned;

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

/// What a Checkout Session and a Refund have that matters here.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    client_reference_id: Option<String>,
    #[serde(default)]
    metadata: std::collections::HashMap<String, String>,
    #[serde(default)]
    payment_intent: Option<String>,
    #[serde(default)]
    payment_status: Option<String>,
    #[serde(default)]
    amount_total: Option<i64>,
    #[serde(default)]
    amount: Option<i64>,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    status: Option<String>,
}

/// The verified event, or `None` for one that means nothing to us.
pub async fn event(call: &Call) -> Result<Option<Payment>, Failure> {
    let secret = config::get("stripe_secret").await;
    let header = call.header("stripe-signature").unwrap_or_default();
    if secret.is_empty() || !verify_stripe(&secret, header, &call.body, clock::now()) {
        return Err(unsigned());
    }
    let event: Event = body::parse(&call.body)?;
    let object = event.data.object;
    let kind = match (event.r#type.as_str(), object.status.as_deref()) {
        ("checkout.session.completed", _) if object.payment_status.as_deref() == Some("paid") => "payment.succeeded",
        ("checkout.session.async_payment_succeeded", _) => "payment.succeeded",
        ("checkout.session.async_payment_failed", _) => "payment.failed",
        ("refund.updated" | "charge.refund.updated", Some("succeeded")) => "refund.succeeded",
        ("refund.failed", _) | ("refund.updated" | "charge.refund.updated", Some("failed")) => "refund.failed",
        _ => return Ok(None),
    };
    let order_no = object.client_reference_id.or_else(|| object.metadata.get("order_no").cloned());
    Ok(Some(Payment {
        id: event.id,
        kind: kind.to_owned(),
        order_no: order_no.unwrap_or_default(),
        payment: object.payment_intent.unwrap_or_default(),
        amount: object.amount_total.or(object.amount).unwrap_or_default(),
        currency: object.currency.unwrap_or_default().to_ascii_uppercase(),
    }))
}
