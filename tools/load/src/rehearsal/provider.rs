//! Whether the provider's callbacks reach the app, and the app's events the shop.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;
use standardwebhooks::Webhook;
use time::OffsetDateTime;

use super::{
    Finding,
    installation::{Answer, Installation},
};

/// How long the next sweep may take to send an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a callback of a type that no provider has, which the app verifies and ignores. Without the secret, its refusal
/// shows that callbacks arrive.
pub async fn callbacks(installation: &Installation, secrets: Option<&str>) -> Result<Finding> {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let (id, body) = (format!("rehearsal-{now}"), r#"{"type":"rehearsal.test","data":{"order_no":"none"}}"#);
    let secret = secrets.and_then(|secrets| secrets.split(' ').next());
    let signature = match secret {
        Some(secret) => Webhook::new(secret)?.sign(&id, now, body.as_bytes())?,
        None => "v1,none".to_owned(),
    };
    let headers = [("webhook-id", id), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)];
    let webhook = installation.send(Method::POST, "/api/payments/webhook", &headers, body).await?;
    if webhook.status == 204 {
        return Ok(Finding::Go("a signed callback about an unknown order reached the app".to_owned()));
    }
    let stripe =
        installation.send(Method::POST, "/api/payments/stripe", &[("stripe-signature", String::new())], body).await?;
    let verified = |answer: &Answer| answer.json()["code"] == "signature_invalid";
    Ok(if secret.is_some() && verified(&webhook) {
        Finding::NoGo("the app refuses the signature by webhook_secrets of the env file: is it this app's?".to_owned())
    } else if verified(&webhook) || verified(&stripe) {
        let provider = if verified(&stripe) { "Stripe" } else { "the payment service" };
        Finding::Go(format!("callbacks of {provider} reach the app, which refuses one that is not signed"))
    } else {
        let (webhook, stripe) = (webhook.describe(), stripe.describe());
        Finding::NoGo(format!(
            "no callback reaches the app: see payment_provider and the proxy. /api/payments/webhook: {webhook}; \
             /api/payments/stripe: {stripe}"
        ))
    })
}

/// Lets the app send a test event, and waits until the shop has accepted it.
pub async fn events(installation: &Installation) -> Result<Finding> {
    let asked = installation.admin(Method::POST, "/api/admin/events/test", "").await?;
    match (asked.status, asked.text.contains("events_url is empty")) {
        (202, _) => {}
        (_, true) => return Ok(Finding::Unchecked("events_url is empty: the shop gets no events".to_owned())),
        _ => return Ok(Finding::NoGo(format!("the app sends no event: {}", asked.describe()))),
    }
    let id = asked.json()["id"].as_str().context("an event without id")?.to_owned();
    let deadline = Instant::now() + EVENT_TIMEOUT;
    loop {
        for state in ["delivered", "waiting", "failed"] {
            let list = installation.read(&format!("/api/admin/events?type=test&state={state}")).await?;
            let Some(event) = list["items"].as_array().into_iter().flatten().find(|event| event["id"] == *id) else {
                continue;
            };
            if state == "delivered" {
                return Ok(Finding::Go("the shop accepted a test event".to_owned()));
            }
            if event["attempts"] != 0 && event["last_error"] != "" {
                let error = event["last_error"].as_str().unwrap_or_default();
                return Ok(Finding::NoGo(format!("the shop did not accept a test event: {error}: see docs/events.md")));
            }
        }
        if Instant::now() > deadline {
            return Ok(Finding::NoGo("no sweep sent a test event in 30 s: does the sweeper run?".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
