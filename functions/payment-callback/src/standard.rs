//! `POST /api/payments/webhook`: verifies and parses Standard Webhooks callbacks.

use domain::{
    api::orders::{CALLBACK_TYPES, PaymentCallback},
    body,
    money::Money,
    webhook::{PaymentProvider, ProviderCallback, WebhookHeaders, verify_standard},
};
use platform::{
    config,
    http::{ApiError, Request},
};
use serde::Deserialize;

use crate::signature::{refusal, require_secret};

/// The type, which decides whether the rest is read.
#[derive(Deserialize)]
struct CallbackType {
    r#type: String,
}

/// Verifies and parses the callback; returns `None` for a type that this app does not use. The sandbox is the provider
/// that signs Standard Webhooks.
pub async fn parse_callback(request: &Request) -> Result<Option<ProviderCallback>, ApiError> {
    require_secret(PaymentProvider::Sandbox, "webhook_secrets").await?;
    let secrets = config::webhook_secrets("webhook_secrets").await?;
    let [id, timestamp, signature] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| request.header(name));
    let headers =
        WebhookHeaders { id: id.as_deref(), timestamp: timestamp.as_deref(), signature: signature.as_deref() };
    if !verify_standard(&secrets, &headers, &request.body) {
        return Err(refusal(PaymentProvider::Sandbox).await?.into());
    }
    let kind = body::parse::<CallbackType>(&request.body)?.r#type;
    if !CALLBACK_TYPES.contains(&kind.as_str()) {
        return Ok(None);
    }
    let data = body::parse::<PaymentCallback>(&request.body)?.data;
    Ok(Some(ProviderCallback {
        id: id.unwrap_or_default(),
        kind,
        order_no: data.order_no,
        payment_id: data.payment,
        money: Money::new(data.amount, data.currency),
        refund_id: data.refund.unwrap_or_default(),
        provider: Some(PaymentProvider::Sandbox),
        ..ProviderCallback::default()
    }))
}
