//! `POST /api/payments/webhook`: Standard Webhooks.

use domain::{
    body,
    money::Money,
    webhook::{Payment, WebhookHeaders, verify_standard},
};
use platform::{
    config,
    http::{Call, Failure},
};
use serde::Deserialize;

use crate::routes::unsigned;

const TYPES: [&str; 4] = ["payment.succeeded", "payment.failed", "refund.succeeded", "refund.failed"];

#[derive(Deserialize)]
struct Event {
    r#type: String,
}

#[derive(Deserialize)]
struct Full {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    order_no: String,
    payment: String,
    amount: i64,
    currency: String,
    #[serde(default)]
    refund: Option<String>,
}

/// The verified event, or `None` for a type that means nothing to us.
pub async fn event(call: &Call) -> Result<Option<Payment>, Failure> {
    let secrets = config::get("webhook_secrets").await;
    let headers = WebhookHeaders {
        id: call.header("webhook-id"),
        timestamp: call.header("webhook-timestamp"),
        signature: call.header("webhook-signature"),
    };
    if !verify_standard(&secrets, &headers, &call.body) {
        return Err(unsigned());
    }
    let kind = body::parse::<Event>(&call.body)?.r#type;
    if !TYPES.contains(&kind.as_str()) {
        return Ok(None);
    }
    let data = body::parse::<Full>(&call.body)?.data;
    Ok(Some(Payment {
        id: headers.id.unwrap_or_default().to_owned(),
        kind,
        order_no: data.order_no,
        payment: data.payment,
        money: Money::new(data.amount, data.currency),
        refund: data.refund.unwrap_or_default(),
        ..Payment::default()
    }))
}
