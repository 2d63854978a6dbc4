//! Disputes that Stripe and a payment service report are shown to operators, and change no order (G21).

use reqwest::Method;
use serde_json::{Value, json};
use support::{
    TestApp,
    payments::{send_stripe_event, send_stripe_payment},
};

use crate::payments::use_stripe;

async fn get(app: &TestApp, path: &str) -> Value {
    app.call_admin(Method::GET, path, &Value::Null).await.is(200).json()
}

/// The open disputes of an order in the inbox.
async fn in_inbox(app: &TestApp, order_no: &str) -> usize {
    let inbox = get(app, "/inbox").await;
    let items = inbox["items"].as_array().expect("items").iter();
    items.filter(|item| item["kind"] == "open_dispute" && item["order_no"] == order_no).count()
}

/// What the timeline says of disputes: what happened, and why.
fn happenings(order: &Value) -> Vec<(&str, &str)> {
    let entries = order["timeline"].as_array().expect("a timeline").iter();
    let entries = entries.map(|it| (it["what"].as_str().expect("a word"), it["reason"].as_str().unwrap_or_default()));
    entries.filter(|(what, _)| what.starts_with("dispute")).collect()
}

#[tokio::test]
async fn a_dispute_at_stripe_is_in_the_inbox_until_it_ends_and_its_order_stays_paid() {
    let app = TestApp::with_variables(use_stripe);
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    send_stripe_payment(&app.http, &app.variables, &order_no).await.is(204);
    app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    // The reports of the withdrawal and of the end overtake the first one.
    for (name, status, created, open) in [
        ("funds_withdrawn", "needs_response", 1_900_000_010, 1),
        ("created", "needs_response", 1_900_000_000, 1),
        ("updated", "under_review", 1_900_000_020, 1),
        ("closed", "won", 1_900_000_030, 0),
        ("closed", "won", 1_900_000_030, 0),
        ("funds_reinstated", "won", 1_900_000_030, 0),
        ("updated", "needs_response", 1_900_000_015, 0),
    ] {
        let dispute = json!({"id": "du_1", "created": 1_900_000_000, "payment_intent": "pi_1", "charge": "ch_1",
            "amount": 1000, "currency": "eur", "reason": "fraudulent", "status": status, "metadata": {}});
        let event = json!({"id": format!("evt_{name}_{created}"), "type": format!("charge.dispute.{name}"),
            "created": created, "data": {"object": dispute}});
        send_stripe_event(&app.http, &app.variables, &event).await.of(name).is(204);
        assert_eq!(in_inbox(&app, &order_no).await, open, "{name}");
    }
    let order = get(&app, &format!("/orders/{order_no}")).await;
    assert_eq!(happenings(&order), [("disputed", "fraudulent"), ("dispute_ended", "won")], "{order}");
    let dispute = &order["disputes"][0];
    assert_eq!((&dispute["payment"], &dispute["amount"]), (&json!("pi_1"), &json!(1000)), "{order}");
    assert_eq!(order["status"], "paid");
    let wrong =
        json!({"id": "evt", "type": "charge.dispute.created", "created": 1, "data": {"object": {"id": "du_2"}}});
    send_stripe_event(&app.http, &app.variables, &wrong).await.is_problem(400, "invalid_request");
    assert_eq!(app.finish_and_count(&activity).await, [9, 0, 1]);
}

#[tokio::test]
async fn a_dispute_at_a_payment_service_names_its_order() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    let session = app.open_session(&order_no, &buyer.jwt).await;
    let report = |order_no: &str, status: &str, minute: u8| {
        json!({"type": "payment.disputed", "timestamp": format!("2026-11-28T20:{minute:02}:00Z"), "data": {
            "order_no": order_no, "payment": format!("pay-{session}"), "dispute": format!("dispute of {session}"),
            "status": status, "amount": 1000, "currency": "EUR"}})
    };
    app.send_callback("evt-dispute-1", &report(&order_no, "open", 1)).await.is(204);
    assert_eq!(in_inbox(&app, &order_no).await, 1, "before the payment is reported");
    app.pay(&order_no, &buyer.jwt).await;
    app.send_callback("evt-dispute-2", &report(&order_no, "lost", 2)).await.is(204);
    assert_eq!(in_inbox(&app, &order_no).await, 0);
    let order = get(&app, &format!("/orders/{order_no}")).await;
    assert_eq!(happenings(&order), [("disputed", ""), ("dispute_ended", "lost")], "{order}");
    assert_eq!(order["status"], "paid");

    app.send_callback("evt-dispute-3", &report("another-app.1", "open", 3)).await.is(204);
    for (member, wrong) in [("dispute", json!("")), ("status", json!("gone")), ("amount", json!("1"))] {
        let mut body = report(&order_no, "open", 4);
        body["data"][member] = wrong;
        let refused = app.send_callback(&format!("evt-wrong-{member}"), &body).await;
        refused.is_problem(400, "invalid_request").points_at(&format!("/data/{member}"));
    }
}
