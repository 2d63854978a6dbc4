//! Attacks by a client that has read the source: forged payments, other names of a route, the sandbox in production.
//! docs/threat-model.md lists them.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use dev::{test_stack::TestStack, variables::Variables};
use hmac::{Hmac, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use time::OffsetDateTime;

use support::{HttpClient, Response, TestApp};

use crate::payments::use_stripe;

/// Starts an app that is not ready, because a variable is wrong.
async fn start_misconfigured(change: impl FnOnce(&mut Variables) + Send + 'static) -> (TestStack, HttpClient) {
    let stack = tokio::task::spawn_blocking(|| TestStack::start(change)).await.expect("a start").expect("an app");
    let http = HttpClient::new(stack.app.url());
    (stack, http)
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Sends a payment that is signed with a key that the attacker guessed.
async fn forge_standard(http: &HttpClient, key: &[u8]) -> Response {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let body = TestApp::callback_body("payment.succeeded", "demo.01ARZ3NDEKTSV4RRFFQ69G5FAV", "s").to_string();
    let signature = format!("v1,{}", BASE64_STANDARD.encode(hmac(key, &format!("evt.{now}.{body}"))));
    let headers =
        [("webhook-id", "evt".to_owned()), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)];
    let sent = http.send_with_headers(Method::POST, "/api/payments/webhook", &headers, body);
    sent.await.expect("an answer")
}

async fn forge_stripe(http: &HttpClient, key: &[u8]) -> Response {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let body = json!({"id": "evt", "type": "checkout.session.completed", "data": {"object": {}}}).to_string();
    let signature = hex::encode(hmac(key, &format!("{now}.{body}")));
    let headers = [("stripe-signature", format!("t={now},v1={signature}"))];
    let sent = http.send_with_headers(Method::POST, "/api/payments/stripe", &headers, body);
    sent.await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_signed_with_a_weak_webhook_secret_is_not_taken() {
    let (_stack, http) = start_misconfigured(|variables| variables.set("webhook_secrets", "whsec_")).await;
    forge_standard(&http, b"").await.is_problem(503, "not_ready");
    let strong_and_weak = |variables: &mut Variables| {
        use_stripe(variables);
        let strong = variables.get("stripe_secret").to_owned();
        variables.set("stripe_secret", format!("{strong} whsec_x"));
    };
    let (_stack, http) = start_misconfigured(strong_and_weak).await;
    forge_stripe(&http, b"whsec_x").await.is_problem(503, "not_ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_provider_that_opened_an_order_moves_it() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let order_no = app.place_order(&activity, &buyer).await;
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
    // Stripe is not configured, although its secret is.
    app.send_stripe_payment(&order_no).await.is_problem(404, "not_found");
    app.open_session(&order_no, &buyer.jwt).await;
    app.send_stripe_payment(&order_no).await.is_problem(404, "not_found");
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
    app.pay(&order_no, &buyer.jwt).await;
    app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
}

/// Sends `GET target` as it is: HTTP clients normalise some of these paths. Returns the status.
fn status_of(app: &TestApp, target: &str) -> String {
    let address = app.with_app(|app| app.url().trim_start_matches("http://").to_owned());
    let mut stream = TcpStream::connect(&address).expect("the app");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    write!(stream, "GET {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("an answer");
    response.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_not_exactly_a_route_is_not_found() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let gate = format!("/api/activities/{}/gate.json", activity.id);
    assert_eq!(status_of(&app, &gate), "200");
    for target in [
        "//metrics",
        "/metrics/",
        "///metrics",
        "/metrics//",
        "//readyz",
        "/readyz/",
        "/healthz/",
        "//healthz",
        "/api//activities",
        "/api/activities/",
        "//api/activities",
        "/api/orders/",
        "/api//admin/activities",
        "/./metrics",
        "/%6detrics",
        "/metrics%2f",
        &format!("{gate}/"),
        &format!("/{gate}"),
        &gate.replace("/gate", "//gate"),
    ] {
        assert_eq!(status_of(&app, target), "404", "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_faults_need_a_token_and_readiness_does_not() {
    let app = TestApp::shared();
    let (metrics, admin) = (app.variables.get("metrics_token"), app.variables.get("admin_token"));
    for token in ["", "wrong", app.variables.get("cron_token")] {
        app.http.get("/metrics", token).await.is_problem(401, "unauthenticated");
        let ready = app.http.get("/readyz", token).await.is(200);
        assert_eq!(ready.json(), json!({"status": "ready"}));
    }
    for token in [metrics, admin] {
        app.http.get("/metrics", token).await.is(200);
        let ready = app.http.get("/readyz", token).await.is(200);
        assert_eq!(ready.json()["checks"]["redis"], "ok");
    }
    app.http.get("/api/admin/activities", metrics).await.is_problem(401, "unauthenticated");

    let (stack, http) = start_misconfigured(|variables| variables.set("webhook_secrets", "whsec_")).await;
    let ready = http.get("/readyz", "").await.is_problem(503, "not_ready");
    assert!(ready.json()["checks"].is_null() && !ready.body.contains("webhook"), "{ready:?}");
    let ready = http.get("/readyz", stack.app.settings().variables.get("metrics_token")).await;
    assert!(ready.is_problem(503, "not_ready").body.contains("webhook_secrets"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_metrics_token_matches_nothing() {
    let app = TestApp::with_variables(|variables| variables.set("metrics_token", ""));
    for header in ["", "Bearer", "Bearer ", "bearer  "] {
        let headers = [("authorization", header.to_owned())];
        let metrics = app.http.send_with_headers(Method::GET, "/metrics", &headers, "").await.expect("an answer");
        metrics.is_problem(401, "unauthenticated");
    }
    app.http.get("/metrics", app.variables.get("admin_token")).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_beside_a_real_provider_signs_nobody_in() {
    let (stack, http) = start_misconfigured(|variables| {
        use_stripe(variables);
        variables.set("sandbox", "on");
    })
    .await;
    http.post("/sandbox/sign-in", "", &json!({"user": "ada"})).await.is_problem(503, "not_ready");
    let ready = http.get("/readyz", stack.app.settings().variables.get("metrics_token")).await;
    assert!(ready.is_problem(503, "not_ready").body.contains("the variable sandbox is on"));
    let app = TestApp::with_variables(use_stripe);
    app.http.post("/sandbox/sign-in", "", &json!({"user": "ada"})).await.is_problem(404, "not_found");
    app.http.send(Method::GET, "/sandbox/pay/x", "", &Value::Null).await.is_problem(404, "not_found");
}
