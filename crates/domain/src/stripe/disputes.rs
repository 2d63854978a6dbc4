//! Reads Stripe's events about disputes.

use serde::Deserialize;

use super::{EventType, Object};
use crate::{
    http::{body, problem::Problem},
    time::Millis,
    webhook::{Dispute, DisputeStatus, PaymentProvider},
};

#[derive(Deserialize)]
struct DisputeEvent {
    created: i64,
    data: DisputeEventData,
}

#[derive(Deserialize)]
struct DisputeEventData {
    object: StripeDispute,
}

#[derive(Deserialize)]
struct StripeDispute {
    #[serde(flatten)]
    object: Object,
    created: i64,
    #[serde(default)]
    reason: String,
}

/// Parses the body of a verified callback if it is about a dispute. An event has the dispute as it was when the event was made,
/// and names no order: Stripe does not copy the payment's metadata.
///
/// # Errors
/// [`Code::InvalidRequest`](crate::http::problem::Code::InvalidRequest) if the body is not a Stripe event.
pub fn parse_dispute(bytes: &[u8]) -> Result<Option<Dispute>, Problem> {
    if !body::parse::<EventType>(bytes)?.r#type.starts_with("charge.dispute.") {
        return Ok(None);
    }
    let DisputeEvent { created: changed, data } = body::parse(bytes)?;
    let StripeDispute { object, created: opened, reason } = data.object;
    let status = match object.status.as_deref() {
        Some("won") => DisputeStatus::Won,
        Some("lost") => DisputeStatus::Lost,
        // The inquiry ended, or the dispute was settled before it began.
        Some("warning_closed" | "prevented") => DisputeStatus::Closed,
        _ => DisputeStatus::Open,
    };
    let [opened_at, changed_at] = [opened, changed].map(|seconds| Millis(seconds.saturating_mul(1_000)));
    let (payment, money) = (object.payment_id(), object.money());
    let (dispute, provider, order_no) = (object.id, PaymentProvider::Stripe, String::new());
    Ok(Some(Dispute { dispute, provider, order_no, payment, money, reason, status, opened_at, changed_at }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::money::Money;

    #[test]
    fn a_dispute_has_the_status_and_the_time_of_its_event() {
        let dispute = |name: &str, status: &str| {
            let object = json!({"id": "du_1", "created": 5, "payment_intent": "pi_1", "amount": 500, "currency": "eur",
                "reason": "fraudulent", "status": status, "metadata": {}});
            let body = json!({"id": "evt", "type": name, "created": 7, "data": {"object": object}}).to_string();
            parse_dispute(body.as_bytes()).expect("an event")
        };
        for (status, expected) in [
            ("warning_needs_response", DisputeStatus::Open),
            ("under_review", DisputeStatus::Open),
            ("warning_closed", DisputeStatus::Closed),
            ("prevented", DisputeStatus::Closed),
            ("won", DisputeStatus::Won),
            ("lost", DisputeStatus::Lost),
        ] {
            let found = dispute("charge.dispute.updated", status).expect("a dispute");
            assert_eq!(
                (found.status, found.money, found.changed_at),
                (expected, Money::new(500, "EUR"), Millis(7_000))
            );
            assert_eq!((found.payment.as_str(), found.reason.as_str()), ("pi_1", "fraudulent"), "{status}");
        }
        assert_eq!(dispute("charge.refunded", "won"), None);
        assert!(parse_dispute(br#"{"type":"charge.dispute.created"}"#).is_err());
    }
}
