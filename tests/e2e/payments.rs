//! Payment callbacks and refunds: a verified callback counts once, an unverified one never (E2, I6).

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

use dev::variables::Variables;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    Buyer, TestActivity, TestApp,
    activity::activity_spec,
    eventually,
    payments::{send_stripe_payment, sign_webhook, use_payment_service},
};
use time::OffsetDateTime;

const WEBHOOK_PATH: &str = "/api/payments/webhook";

/// Creates an order with a payment session, and the callback that would pay it.
async fn create_order_with_session(app: &TestApp) -> (TestActivity, Buyer, String, Value) {
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let session = app.open_session(&order_no, &buyer.jwt).await;
    let body = TestApp::callback_body("payment.succeeded", &order_no, &session);
    (activity, buyer, order_no, body)
}

#[tokio::test]
async fn a_callback_with_an_invalid_signature_changes_nothing_and_neither_does_a_repeated_or_late_one() {
    let app = TestApp::shared();
    let (activity, buyer, order_no, body) = create_order_with_session(&app).await;
    let text = body.to_string();
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let secret = app.variables.get("webhook_secrets").to_owned();
    let valid_signature = sign_webhook(&secret, "evt-1", now, &text);
    let other_signature = sign_webhook("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "evt-1", now, &text);
    let too_old = now - 301;
    for (case, timestamp, signature, body) in [
        ("another secret", now, &other_signature, &text),
        ("too old", too_old, &sign_webhook(&secret, "evt-1", too_old, &text), &text),
        ("another body", now, &valid_signature, &text.replace("1000", "1")),
        ("no signature", now, &"v1,".to_owned(), &text),
    ] {
        let response = app.send_callback_with_signature("evt-1", timestamp, signature, body).await;
        response.of(case).is_problem(401, "signature_invalid");
    }
    let headers = [("webhook-id", "evt-1".to_owned()), ("webhook-signature", valid_signature.clone())];
    let without_timestamp =
        app.http.send_with_headers(Method::POST, WEBHOOK_PATH, &headers, text.clone()).await.expect("an answer");
    without_timestamp.is_problem(401, "signature_invalid");
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;

    // One valid signature among invalid ones is enough.
    let mixed_signatures = format!("{other_signature} v2,zzz {valid_signature} v1,AAAA");
    app.send_callback_with_signature("evt-1", now, &mixed_signatures, &text).await.is(204);
    let paid = app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    for _ in 0..2 {
        app.send_callback("evt-1", &body).await.is(204);
    }
    // A failure that arrives after the payment does not undo it.
    let failed = TestApp::callback_body("payment.failed", &order_no, "s");
    app.send_callback("evt-late-failure", &failed).await.is(204);
    assert_eq!(app.wait_for_status(&order_no, &buyer.jwt, "paid").await["paid_at"], paid["paid_at"]);
    assert_eq!(app.finish_and_count(&activity).await, [9, 0, 1]);
}

#[tokio::test]
async fn a_declined_payment_leaves_the_order_pending_and_says_so() {
    let app = TestApp::shared();
    let (_, buyer, order_no, _) = create_order_with_session(&app).await;
    let session = app.open_session(&order_no, &buyer.jwt).await;
    assert!(app.get_order(&order_no, &buyer.jwt).await.json()["declined_at"].is_null());
    app.submit_payment(&session, "declined").await.is(200);
    eventually("the order to say so", async || {
        let declined = app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
        if declined["declined_at"].as_str() > declined["created_at"].as_str() { Ok(()) } else { Err(declined) }
    })
    .await;
    app.submit_payment(&session, "paid").await.is(200);
    let paid = app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    assert!(paid["declined_at"].is_null(), "{paid}");
}

#[tokio::test]
async fn a_signed_callback_with_an_invalid_body_is_refused_without_a_server_error() {
    let app = TestApp::shared();
    let (_, buyer, order_no, body) = create_order_with_session(&app).await;
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let secret = app.variables.get("webhook_secrets").to_owned();
    for (index, text) in ["", "{", "[]", "null", r#"{"type":7}"#, r#"{"type":"payment.succeeded"}"#].iter().enumerate()
    {
        let id = format!("evt-nonsense-{index}");
        let response = app.send_callback_with_signature(&id, now, &sign_webhook(&secret, &id, now, text), text).await;
        response.of(text).is_problem(400, "invalid_request");
    }
    for (member, wrong) in
        [("amount", json!("1000")), ("amount", json!(1.5)), ("order_no", json!(7)), ("refund", json!("r".repeat(201)))]
    {
        let mut wrong_body = body.clone();
        wrong_body["data"][member] = wrong;
        let response = app.send_callback(&format!("evt-wrong-{member}"), &wrong_body).await;
        response.is_problem(400, "invalid_request").points_at(&format!("/data/{member}"));
    }
    // The ledger would keep two such ids as one.
    let response = app.send_callback(&"x".repeat(201), &body).await;
    response.is_problem(400, "invalid_request");
    app.send_callback("evt-unknown", &json!({"type": "customer.created", "timestamp": "x", "data": {}})).await.is(204);
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
}

#[tokio::test]
async fn an_activity_may_refuse_requests_for_a_refund() {
    let app = TestApp::shared();
    for (window, status) in [(json!(0), 409), (json!(3_600), 202)] {
        let (activity, buyer, order_no) = app.create_order(json!({"refund_window_seconds": window})).await;
        let shown = app.http.get(&format!("/api/activities/{}", activity.id), "").await.json();
        assert_eq!(shown["refund_window_seconds"], window, "{shown}");
        app.pay(&order_no, &buyer.jwt).await;
        let response = app.refund(&order_no, &buyer.jwt).await.is(status);
        if status == 409 {
            let response = response.is_problem(409, "refund_closed");
            assert!(response.text("detail").contains("Ask the shop"), "{response:?}");
            assert_eq!(app.get_order(&order_no, &buyer.jwt).await.text("status"), "paid");
        }
    }
}

#[tokio::test]
async fn a_refunded_unit_is_not_restocked_if_the_activity_says_so() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({"refund_restocks": false})).await;
    app.pay(&order_no, &buyer.jwt).await;
    app.refund(&order_no, &buyer.jwt).await.is(202);
    app.sweep_until_refunded(&order_no, &buyer.jwt).await;
    assert_eq!(app.finish_and_count(&activity).await, [9, 0, 1]);
}

#[tokio::test]
async fn a_stripe_callback_without_a_valid_signature_is_refused() {
    let app = TestApp::with_variables(use_stripe);
    let path = "/api/payments/stripe";
    app.http.post(path, "", &json!({"type": "checkout.session.completed"})).await.is_problem(401, "signature_invalid");
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for header in ["", "t=,v1=", &format!("t={now},v1=00"), "v1=abc", "t=99999999999999999999,v1=00"] {
        let headers = [("stripe-signature", header.to_owned())];
        let response = app.http.send_with_headers(Method::POST, path, &headers, "{}").await.expect("an answer");
        response.is_problem(401, "signature_invalid");
    }
}

/// Replaces the sandbox by Stripe.
pub fn use_stripe(variables: &mut Variables) {
    variables.set("sandbox", "off");
    variables.set("payment_provider", "stripe");
    variables.set("stripe_api_key", "sk_test");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_no_longer_configured_keeps_its_orders_and_gets_no_other() {
    let mut calls = None;
    let app = TestApp::with_variables(|variables| calls = Some(use_payment_service(variables)));
    let calls = calls.expect("a service");
    let activity = app.create_activity(json!({})).await;
    let (first, second) = (app.create_buyer(&activity, "ada").await, app.create_buyer(&activity, "bob").await);
    let (order_no, other) = (app.place_order(&activity, &first).await, app.place_order(&activity, &second).await);
    assert_eq!(app.checkout(&order_no, &first.jwt).await.is(200).text("checkout_url"), "https://pay.example/s");
    assert_eq!(calls.recv().expect("a call")["type"], "session.open");

    app.restart_with(use_stripe);
    let paid = |order_no: &str| TestApp::callback_body("payment.succeeded", order_no, "s");
    app.send_callback("evt-other", &paid(&other)).await.is_problem(404, "not_found");
    app.cancel(&other, &second.jwt).await.is(200);
    app.send_callback("evt-cancelled", &paid(&other)).await.is_problem(404, "not_found");
    app.send_callback("evt-own", &paid(&order_no)).await.is(204);
    app.wait_for_status(&order_no, &first.jwt, "paid").await;
    app.refund(&order_no, &first.jwt).await.is(202);
    app.sweep().await;
    let refund = calls.recv_timeout(Duration::from_secs(10)).expect("the refund");
    assert_eq!((&refund["type"], &refund["data"]["order_no"]), (&json!("refund.create"), &json!(order_no)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_with_a_price_that_the_provider_cannot_charge_is_not_published() {
    let app = TestApp::with_variables(|_| ());
    let put = async |price: i64, currency: &str| {
        let skus = json!([{"sku": "a", "name": "A thing", "price": price, "currency": currency, "total": 10}]);
        let path = format!("/activities/price-{price}-{}", currency.to_lowercase());
        (app.call_admin(Method::PUT, &path, &activity_spec(&json!({"skus": skus}))).await, path)
    };
    // No multiple of what Stripe charges in, less than it charges, and prices that it takes.
    let prices =
        [(1_999, "KWD", 400), (1, "EUR", 400), (49, "JPY", 400), (50, "EUR", 200), (1, "ISK", 200), (0, "EUR", 200)];
    for (price, currency, _) in prices {
        put(price, currency).await.0.is(200);
    }
    app.restart_with(use_stripe);
    for (price, currency, status) in prices {
        let (saved, path) = put(price, currency).await;
        let published = app.call_admin(Method::POST, &format!("{path}/publish"), &Value::Null).await;
        for response in [saved, published] {
            let response = response.of(format!("{price} {currency}")).is(status);
            if status == 400 {
                response.points_at("/skus/0/price");
            }
        }
    }
    app.restart_with(|variables| variables.set("payment_provider", "sandbox"));
    app.call_admin(Method::POST, "/activities/price-1-eur/publish", &Value::Null).await.is(200);
}

/// Starts a server that answers every request with a byte of the body twice a second, without an end, and returns its
/// URL.
fn start_endless_provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut sent = connection.read(&mut [0; 4_096]).map(drop);
                sent = sent.and_then(|()| connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"));
                while sent.is_ok() {
                    sent = connection.write_all(b" ");
                    thread::sleep(Duration::from_millis(500));
                }
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_whose_answer_never_ends_does_not_hold_a_sweep() {
    let app = TestApp::with_variables(|variables| {
        use_stripe(variables);
        variables.set("stripe_api", start_endless_provider());
    });
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    send_stripe_payment(&app.http, &app.variables, &order_no).await.is(204);
    app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    app.refund(&order_no, &buyer.jwt).await.is(202);
    let sweep = tokio::time::timeout(Duration::from_secs(40), app.sweep());
    let report = sweep.await.expect("a sweep that ends before the provider's answer");
    assert_eq!(report["refunds"], 1, "{report}");
    let order = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200);
    assert!(order.body.contains("no answer: it took longer than 4000 ms"), "{order:?}");
}

/// A buyer can repeat a checkout.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_does_not_answer_is_one_line_a_minute_in_the_log_of_an_instance() {
    let app = TestApp::with_variables(|variables| {
        use_stripe(variables);
        variables.set("stripe_api", "http://127.0.0.1:1");
    });
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    // The app may have an instance for each of those that are sent at the same time.
    for _ in 0..5 {
        for answer in join_all((0..20).map(|_| app.checkout(&order_no, &buyer.jwt))).await {
            answer.is_problem(503, "not_ready");
        }
    }
    let log = app.log();
    let lines = log.lines().filter(|line| line.contains("the payment provider opened no session")).count();
    assert!((1..50).contains(&lines), "{lines} lines for 100 checkouts:\n{log}");
}
