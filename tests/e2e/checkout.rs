//! Checkout, overpayments, and callbacks parked for the operator (E1, E2, I6).

use reqwest::Method;
use serde_json::{Value, json};
use support::{
    TestApp,
    activity::{activity_spec, unique_id},
    eventually,
    payments::sign_webhook,
};

/// Returns the callbacks of an order that wait for an operator.
async fn parked_callbacks(app: &TestApp, order_no: &str) -> Vec<Value> {
    let all = app.call_admin(Method::GET, "/callbacks", &Value::Null).await.is(200).json();
    let all = all["items"].as_array().expect("a list").clone();
    all.into_iter().filter(|callback| callback["order_no"] == order_no).collect()
}

#[tokio::test]
async fn an_invalid_address_is_refused_with_a_pointer_and_opens_no_session() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    let path = format!("/api/orders/{order_no}/checkout");
    for (body, pointer) in [
        (json!({}), "/address"),
        (json!({"address": "1 Mill Lane"}), "/address"),
        (json!({"address": {"city": 7}}), "/address/city"),
        (json!({"address": {"city": "x".repeat(201)}}), "/address/city"),
        (json!({"address": {"city": "Austin", "postal_code": "78701", "country": "US"}}), "/address/state"),
    ] {
        app.http.post(&path, &buyer.jwt, &body).await.is_problem(400, "invalid_request").points_at(pointer);
    }
    let huge = json!({"address": {"city": "x".repeat(20_000)}});
    app.http.post(&path, &buyer.jwt, &huge).await.is_problem(413, "payload_too_large");
    assert!(app.get_order(&order_no, &buyer.jwt).await.json()["checkout_url"].is_null());
}

#[tokio::test]
async fn another_address_replaces_the_first_until_the_order_is_paid() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    let first = app.checkout(&order_no, &buyer.jwt).await.is(200).json();
    let path = format!("/api/orders/{order_no}/checkout");
    let other = json!({"address": {"city": "Paris"}});
    assert_eq!(app.http.post(&path, &buyer.jwt, &other).await.is(200).json(), first);
    let shown = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200).json();
    assert_eq!(shown["address"], json!({"city": "Paris"}));
    app.pay(&order_no, &buyer.jwt).await;
    app.http.post(&path, &buyer.jwt, &other).await.is_problem(409, "state_conflict");
}

#[tokio::test]
async fn a_free_pass_needs_no_address_is_paid_by_its_checkout_and_refunded_at_once() {
    let app = TestApp::shared();
    let free = json!([{"sku": "a", "name": "A pass", "price": 0, "currency": "EUR", "total": 3}]);
    let (activity, buyer, order_no) = app.create_order(json!({"checkout": "none", "skus": free})).await;
    let path = format!("/api/orders/{order_no}/checkout");
    for body in [json!({}), json!({"address": {"city": "Paris"}})] {
        let checked_out = app.http.post(&path, &buyer.jwt, &body).await.is(200);
        assert_eq!(checked_out.text("checkout_url"), format!("/order?order_no={order_no}"));
        let paid = app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
        assert_eq!((&paid["amount"], paid.get("checkout_url")), (&json!(0), None), "{paid}");
    }
    let shown = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200).json();
    assert!(shown["address"].is_null(), "{shown}");
    assert_eq!(app.refund(&order_no, &buyer.jwt).await.is(202).text("status"), "refunded");
    assert_eq!(app.finish_and_count(&activity).await, [3, 0, 0]);
}

#[tokio::test]
async fn only_stripe_can_ask_for_an_address() {
    let app = TestApp::shared();
    let spec = activity_spec(&json!({"checkout": "provider"}));
    let path = format!("/activities/{}", unique_id("stripe"));
    let refused = app.call_admin(Method::PUT, &path, &spec).await;
    refused.is_problem(400, "invalid_request").points_at("/checkout");
}

#[tokio::test]
async fn an_address_is_encrypted_in_the_ledger_and_shown_only_to_operators() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    app.checkout(&order_no, &buyer.jwt).await.is(200);
    let path = format!("/orders/{order_no}");
    let shown = app.call_admin(Method::GET, &path, &Value::Null).await.is(200).json();
    assert_eq!((&shown["user"], &shown["address"]["city"]), (&json!("ada"), &json!("London")), "{shown}");
    let plain = format!("SELECT COUNT(*) FROM addresses WHERE order_no = '{order_no}' AND sealed LIKE '%London%'");
    assert_eq!(app.query_ledger_i64(&plain).await, 0);
    let stored = format!("SELECT COUNT(*) FROM addresses WHERE order_no = '{order_no}'");
    assert_eq!(app.query_ledger_i64(&stored).await, 1);
    assert!(!app.with_app(|app| app.output()).contains("Mill Lane"), "the address is in the log");
    assert!(app.get_order(&order_no, &buyer.jwt).await.json()["address"].is_null());
    app.http.get(&format!("/api/admin{path}"), &buyer.jwt).await.is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_second_payment_is_refunded() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let session = app.open_session(&order_no, &buyer.jwt).await;
    for again in [0, 1, 1] {
        let body = json!({"outcome": "paid", "again": again});
        app.http.post(&format!("/sandbox/pay/{session}"), "", &body).await.is(200);
    }
    let refund = eventually("the second payment to be back", async || {
        app.sweep().await;
        let shown = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.json();
        let refund = shown["refunds"][0].clone();
        if refund["state"] == "confirmed" { Ok(refund) } else { Err(shown) }
    })
    .await;
    assert_eq!((&refund["book"], &refund["amount"]), (&json!("overpayments"), &json!(1000)));
    app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    assert_eq!(app.finish_and_count(&activity).await, [9, 0, 1]);
}

#[tokio::test]
async fn a_held_callback_is_refunded_or_dismissed_once() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    for event in ["a", "b"] {
        let mut body = TestApp::callback_body("payment.succeeded", &order_no, "s");
        body["data"]["amount"] = json!(999);
        body["data"]["payment"] = json!(format!("pay_{event}_{order_no}"));
        app.send_callback(&format!("evt-{event}-{order_no}"), &body).await.is(204);
    }
    assert_eq!(parked_callbacks(&app, &order_no).await.len(), 2);
    let resolve = async |event: &str, action: &str| {
        app.call_admin(Method::POST, &format!("/callbacks/evt-{event}-{order_no}/{action}"), &Value::Null).await
    };
    assert_eq!(resolve("a", "replay").await.is(200).text("outcome"), "parked");
    resolve("a", "refund").await.is(200);
    resolve("b", "dismiss").await.is(200);
    for (event, action) in [("a", "refund"), ("a", "dismiss"), ("b", "dismiss"), ("c", "dismiss")] {
        resolve(event, action).await.is_problem(404, "not_found");
    }
    let shown = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200).json();
    assert_eq!((&shown["refunds"][0]["amount"], &shown["refunds"][1]), (&json!(999), &Value::Null), "{shown}");
    assert!(parked_callbacks(&app, &order_no).await.is_empty());
    eventually("no refund to be open", async || {
        app.sweep().await;
        let open = app.call_admin(Method::GET, "/refunds", &Value::Null).await.is(200).json();
        let mine =
            open["items"].as_array().expect("a list").iter().any(|refund| refund["order_no"] == order_no.as_str());
        if mine { Err(open) } else { Ok(()) }
    })
    .await;
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
}

#[tokio::test]
async fn a_payment_for_an_unknown_order_is_held_without_a_server_error() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let order_no = app.create_buyer(&activity, "ada").await.order_no();
    let callback = |order_no: &str| TestApp::callback_body("payment.succeeded", order_no, "s");
    app.send_callback(&format!("evt-{order_no}"), &callback(&order_no)).await.is(204);
    let callbacks = parked_callbacks(&app, &order_no).await;
    assert_eq!((callbacks.len(), &callbacks[0]["outcome"]), (1, &json!("unknown_order")));
}

/// Another app, or another business, has the same account at the provider.
#[tokio::test]
async fn a_callback_about_an_order_that_the_app_never_made_is_counted_and_not_held() {
    let app = TestApp::shared();
    let counted = async || {
        let metrics = app.http.get("/metrics", app.variables.get("admin_token")).await.is(200).body;
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("stampede_foreign_callbacks_total ")).map(str::to_owned);
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    let before = counted().await;
    let foreign = format!("nowhere.{}", ulid::Ulid::from_parts(1, fastrand::u128(..)));
    let order_numbers = [foreign.as_str(), "", "no order number", "a.b"];
    for kind in ["payment.succeeded", "refund.succeeded"] {
        for (index, order_no) in order_numbers.into_iter().enumerate() {
            let body = TestApp::callback_body(kind, order_no, "s");
            app.send_callback(&format!("evt-{kind}-{index}-{foreign}"), &body).await.is(204);
        }
    }
    eventually("the callbacks to be counted", async || {
        let count = counted().await;
        if count >= before + 8 { Ok(()) } else { Err(count) }
    })
    .await;
    let parked = app.call_admin(Method::GET, "/callbacks", &Value::Null).await.is(200).body;
    assert!(!parked.contains(&foreign), "{parked}");
}

#[tokio::test]
async fn a_payment_that_names_another_session_counts_and_operators_see_it() {
    let app = TestApp::shared();
    for (session, is_other) in [(json!("another"), true), (json!(7), true), (Value::Null, false)] {
        let (_, buyer, order_no) = app.create_order(json!({})).await;
        app.open_session(&order_no, &buyer.jwt).await;
        let mut body = TestApp::callback_body("payment.succeeded", &order_no, "");
        body["data"]["session"] = session;
        app.send_callback(&format!("evt-{order_no}"), &body).await.is(204);
        app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
        let shown = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200).json();
        assert_eq!(shown["callbacks"][0]["other_session"], is_other, "{shown}");
        eventually("the log", async || {
            let is_logged = |line: &str| line.contains("names another session") && line.contains(&order_no);
            let log = app.log();
            if log.lines().any(is_logged) == is_other { Ok(()) } else { Err(log) }
        })
        .await;
    }
    // A payment on the provider's page names its own session.
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    app.pay(&order_no, &buyer.jwt).await;
    let shown = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200).json();
    assert_eq!(shown["callbacks"][0]["other_session"], false, "{shown}");
}

#[tokio::test]
async fn a_signed_callback_of_64_kb_is_taken() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    let mut body = TestApp::callback_body("payment.succeeded", &order_no, "");
    body["data"]["metadata"] = json!("");
    for (index, (length, status)) in [(17_000, 204), (64 * 1024, 204), (64 * 1024 + 1, 413)].into_iter().enumerate() {
        body["data"]["metadata"] = json!("");
        let padding = length - body.to_string().len();
        body["data"]["metadata"] = json!("x".repeat(padding));
        app.send_callback(&format!("evt-large-{index}-{order_no}"), &body).await.is(status);
    }
    app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
}

#[tokio::test]
async fn a_callback_of_ten_megabytes_is_refused() {
    let app = TestApp::shared();
    let body = "x".repeat(10 * 1024 * 1024);
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    let secret = app.variables.get("webhook_secrets").to_owned();
    let headers = [
        ("webhook-id", "evt-huge".to_owned()),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", sign_webhook(&secret, "evt-huge", now, &body)),
    ];
    // The app may refuse by the length alone and close the connection before it has read the body.
    if let Ok(response) = app.http.send_with_headers(Method::POST, "/api/payments/webhook", &headers, body).await {
        response.is_problem(413, "payload_too_large");
    }
    app.http.get("/healthz", "").await.is(200);
}
