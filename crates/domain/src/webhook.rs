//! Webhook signatures: Standard Webhooks 1.0 and Stripe.

use hmac::{Hmac, Mac};
use http::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use standardwebhooks::Webhook;

use crate::{
    http::request::{Headers, first_value},
    money::Money,
    time::Millis,
};

/// Maximum difference between a signature's timestamp and the server's clock, in seconds, in both directions.
pub const TOLERANCE_SECONDS: i64 = 300;

/// Whether one of `secrets` (separated by spaces; two during a rotation) signed the message.
///
/// The library verifies signature and age. It verifies the signature over the timestamp as it parsed and formatted it,
/// so texts such as `+1` and `01` would pass as `1`. They are refused first: the header must be a canonical number.
#[must_use]
pub fn verify_standard(secrets: &str, headers: &impl Headers, body: &[u8]) -> bool {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let [Some(id), Some(timestamp), Some(signature)] = names.map(|name| first_value(headers, name)) else {
        return false;
    };
    let digits = (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|b| b.is_ascii_digit());
    let canonical = !timestamp.starts_with('0') || timestamp == "0";
    if id.is_empty() || !digits || !canonical {
        return false;
    }
    let mut map = HeaderMap::new();
    for (name, value) in names.into_iter().zip([id, timestamp, signature]) {
        let Ok(value) = HeaderValue::from_str(&value) else { return false };
        map.insert(name, value);
    }
    secrets
        .split_ascii_whitespace()
        .filter_map(|secret| Webhook::new(secret).ok())
        .any(|webhook| webhook.verify(body, &map).is_ok())
}

/// The header `webhook-signature` of an outgoing message. `None` if the secret is malformed.
#[must_use]
pub fn sign_standard(secret: &str, id: &str, now: Millis, body: &[u8]) -> Option<String> {
    Webhook::new(secret).ok()?.sign(id, now.0 / 1000, body).ok()
}

/// A Standard Webhooks message, signed for one attempt to send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedMessage {
    /// Header `webhook-id`: the same for every attempt.
    pub id: String,
    /// Header `webhook-timestamp`: the time of this attempt, in seconds since 1970.
    pub timestamp: String,
    /// Header `webhook-signature`.
    pub signature: String,
    /// The JSON body.
    pub body: String,
}

impl SignedMessage {
    /// The headers of the request that carries the message.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", "stampede".to_owned()),
            ("webhook-id", self.id.clone()),
            ("webhook-timestamp", self.timestamp.clone()),
            ("webhook-signature", self.signature.clone()),
        ]
    }
}

/// Signs a message with each of `secrets` (separated by spaces; two during a rotation). `None` if there is no secret or
/// one of them is malformed.
#[must_use]
pub fn sign(secrets: &str, id: String, now: Millis, body: String) -> Option<SignedMessage> {
    let sign = |secret| sign_standard(secret, &id, now, body.as_bytes());
    let signatures: Option<Vec<_>> = secrets.split_ascii_whitespace().map(sign).collect();
    let signature = signatures.filter(|signatures| !signatures.is_empty())?.join(" ");
    Some(SignedMessage { id, timestamp: (now.0 / 1000).to_string(), signature, body })
}

crate::words! {
    /// A payment provider. An order remembers the one that opened its payment session, and only that provider's callbacks
    /// change it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PaymentProvider {
        /// The component `sandbox`: a payment service for development.
        Sandbox = "sandbox",
        /// A payment service of the shop (docs/payments.md).
        Webhook = "webhook",
        /// Stripe.
        Stripe = "stripe",
    }
}

/// A provider's callback about a payment, a refund or a session. Stripe's events are translated to this form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderCallback {
    /// The provider's id of the callback's event; the same for each delivery.
    pub id: String,
    /// `payment.succeeded`, `payment.failed`, `refund.succeeded`, `refund.failed` or `session.ended`.
    pub kind: String,
    /// The order number in the callback; not validated.
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment_id: String,
    /// The amount.
    pub money: Money,
    /// The provider's id of the refund; empty if there is none.
    pub refund_id: String,
    /// The provider's id of the payment session; empty if the callback names none.
    pub session_id: String,
    /// The provider that signed the callback. `None` if the app asked the provider: the answer needs no signature.
    pub provider: Option<PaymentProvider>,
    /// The delivery address that the payment page asked for, encrypted; empty without one.
    pub sealed_address: String,
}

crate::words! {
    /// What became of a dispute.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub enum DisputeStatus {
        /// Not decided.
        Open = "open",
        /// The shop keeps the money.
        Won = "won",
        /// The payer has the money.
        Lost = "lost",
        /// It ended without a decision.
        Closed = "closed",
    }
}

/// A payment that its payer disputes (a chargeback), as the provider reports it. It changes no order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dispute {
    /// The provider's id.
    pub dispute: String,
    /// The provider.
    #[schemars(with = "String")]
    pub provider: PaymentProvider,
    /// The order; empty if the provider names none, and as long as the ledger does not have its payment.
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// How much is disputed.
    #[serde(flatten)]
    pub money: Money,
    /// Why, in the provider's words.
    pub reason: String,
    /// What became of it.
    pub status: DisputeStatus,
    /// When the provider first reported it.
    pub opened_at: Millis,
    /// When the provider last reported something else of it.
    pub changed_at: Millis,
}

/// What a provider reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// A payment, a refund or a session.
    Callback(ProviderCallback),
    /// A dispute.
    Dispute(Dispute),
}

/// Whether `header` (`Stripe-Signature`) contains a valid signature of `body` whose timestamp is within
/// [`TOLERANCE_SECONDS`] of `now`.
#[must_use]
pub fn verify_stripe(secret: &str, header: &str, body: &[u8], now: Millis) -> bool {
    let mut timestamp = None;
    let mut signatures = Vec::new();
    for item in header.split(',') {
        match item.trim().split_once('=') {
            Some(("t", value)) => timestamp = Some(value),
            Some(("v1", value)) => signatures.push(value),
            _ => {}
        }
    }
    let Some(timestamp) = timestamp.filter(|t| (1..=12).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit()))
    else {
        return false;
    };
    let Ok(seconds) = timestamp.parse::<i64>() else { return false };
    if (now.0 / 1000 - seconds).abs() > TOLERANCE_SECONDS {
        return false;
    }
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    let is_valid = |signature: Vec<u8>| mac.clone().verify_slice(&signature).is_ok();
    signatures.into_iter().filter_map(|text| hex::decode(text).ok()).any(is_valid)
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;

    fn now() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs() as i64
    }

    fn verified(secrets: &str, timestamp: &str, signature: &str) -> bool {
        let headers = [("webhook-id", "msg_1"), ("webhook-timestamp", timestamp), ("webhook-signature", signature)];
        verify_standard(secrets, &&headers[..], BODY)
    }

    #[test]
    fn the_published_test_vector_matches() {
        let id = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
        let signature = sign_standard(SECRET, id, Millis(1_649_367_553_000), BODY);
        assert_eq!(signature.as_deref(), Some("v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="));
    }

    #[test]
    fn one_valid_signature_among_invalid_ones_suffices() {
        let now = now();
        let good = sign_standard(SECRET, "msg_1", Millis(now * 1000), BODY).expect("signed");
        let wrong = sign_standard(OTHER, "msg_1", Millis(now * 1000), BODY).expect("signed");
        let body = String::from_utf8_lossy(BODY).into_owned();
        let both = sign(&format!("{OTHER} {SECRET}"), "msg_1".to_owned(), Millis(now * 1000), body);
        assert_eq!(both.map(|message| message.signature), Some(format!("{wrong} {good}")), "one for each secret");
        let now = now.to_string();
        assert!(verified(SECRET, &now, &good));
        assert!(verified(SECRET, &now, &format!("{wrong} v1a,AAAA {good} v9,zzz")));
        assert!(verified(&format!("{OTHER} {SECRET}"), &now, &good), "two live secrets");
        assert!(!verified(SECRET, &now, &format!("{wrong} {wrong} {wrong}")));
    }

    #[test]
    fn nothing_is_signed_with_an_invalid_secret() {
        for secrets in ["", " ", "whsec_!", "plain", &format!("{SECRET} whsec_!")] {
            assert_eq!(sign(secrets, String::new(), Millis(0), String::new()), None, "{secrets:?}");
        }
    }

    #[test]
    fn truncated_empty_and_old_signatures_and_malformed_timestamps_fail() {
        let now = now();
        let sign = |at: i64| sign_standard(SECRET, "msg_1", Millis(at * 1000), BODY).expect("signed");
        let good = sign(now);
        assert!(!verified(SECRET, &now.to_string(), "v1,"));
        assert!(!verified(SECRET, &now.to_string(), &good[..11]));
        assert!(!verified(SECRET, &(now - 301).to_string(), &sign(now - 301)));
        assert!(!verified(SECRET, &(now + 330).to_string(), &sign(now + 330)));
        for odd in ["", "-1", "1e9", "99999999999999", &format!("0{now}"), &format!("+{now}")] {
            assert!(!verified(SECRET, odd, &good), "{odd:?} was accepted");
        }
        let without_id = [("webhook-timestamp", "1"), ("webhook-signature", &*good)];
        assert!(!verify_standard(SECRET, &&without_id[..], BODY));
    }
}
