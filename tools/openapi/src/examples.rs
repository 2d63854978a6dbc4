//! Examples of requests and responses: the linter checks them against the schemas, a test the requests against the types.

use serde_json::{Value, json};

const ORDER_NO: &str = "spring-2026.01JZ8Q4M7T3V9X2C5B6N0K1R8W";
const TICKET: &str = "1.UoWv…";
const STARTS_AT: &str = "2026-11-21T20:00:00.000Z";
const ENDS_AT: &str = "2026-11-21T21:00:00.000Z";
const CREATED_AT: &str = "2026-11-21T20:00:00.412Z";
/// Until when the order of the examples is to be paid.
pub const PAY_BY: &str = "2026-11-21T20:05:00.498Z";

pub fn ticket() -> Value {
    json!({ "ticket": TICKET, "order_no": ORDER_NO, "expires_at": "2026-11-21T20:10:00.000Z" })
}

pub fn reservation() -> Value {
    json!({ "sku": "phone-black", "quantity": 1, "ticket": TICKET, "start_key": "p8X2…" })
}

/// An order that is `queued` or `pending_payment`.
pub fn order(status: &str) -> Value {
    let is_queued = status == "queued";
    let mut order = json!({
        "order_no": ORDER_NO, "activity": "spring-2026", "status": status, "sku": "phone-black", "quantity": 1,
        "amount": 69_900, "currency": "EUR", "ahead": if is_queued { 12 } else { 0 }, "estimated_wait_ms": if is_queued { 40 } else { 0 },
        "created_at": CREATED_AT,
    });
    if !is_queued {
        order["pay_by"] = PAY_BY.into();
    }
    order
}

pub fn checkout() -> Value {
    json!({
        "address": { "name": "Ada Lovelace", "street": "1 Analytical Way", "postal_code": "10115", "city": "Berlin", "country": "DE" },
        "language": "en",
    })
}

pub fn spec() -> Value {
    json!({ "title": "Spring sale", "starts_at": STARTS_AT, "ends_at": ENDS_AT, "per_user": 2, "skus": [sku(100)] })
}

pub fn sku(total: i64) -> Value {
    json!({
        "sku": "phone-black", "name": "Phone, black", "image": "", "price": 69_900, "currency": "EUR", "total": total,
    })
}

/// The answer to [`spec`].
pub fn activity() -> Value {
    json!({
        "id": "spring-2026", "state": "draft", "version": 1, "title": "Spring sale", "description": "", "image": "",
        "starts_at": STARTS_AT, "ends_at": ENDS_AT, "pay_timeout_seconds": 300, "pay_extension_seconds": 0,
        "per_user": 2, "human_check": "none", "min_difficulty": 1,
        "eligibility": { "members_only": false, "min_level": 0, "allow": [] }, "checkout": "form",
        "refund_restocks": true, "limits": {}, "max_wait_seconds": 60, "skus": [sku(100)],
    })
}

#[cfg(test)]
mod tests {
    use domain::{
        activity::ActivitySpec,
        api::{admission::Reservation, orders::CheckoutBody},
        http::body,
        ids::ActivityId,
    };
    use sale::ledger::activities::Activity;

    use super::*;

    #[test]
    fn the_examples_are_what_the_functions_read_and_send() {
        let bytes = |value: &Value| value.to_string().into_bytes();
        let spec = body::parse_strict(&bytes(&spec()), ActivitySpec::validate).expect("a spec");
        body::parse::<Reservation>(&bytes(&reservation())).expect("a reservation");
        body::parse::<CheckoutBody>(&bytes(&checkout())).expect("a checkout");
        let saved = Activity {
            id: ActivityId::parse("spring-2026").expect("an id"),
            spec,
            state: domain::activity::ActivityState::Draft,
            announcement: domain::activity::Announcement::default(),
            nonce: String::new(),
            version: 1,
            epoch: 0,
            live_units: Vec::new(),
        };
        assert_eq!(serde_json::to_value(saved).expect("JSON"), activity());
    }
}
