//! Attacks by a client that has read the source: forged payments, other names of a route, the sandbox in production.
//! docs/threat-model.md lists them.

use std::net::Ipv4Addr;

use dev::{test_stack::TestStack, variables::Variables};
use hmac::{Hmac, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use support::{HttpClient, Response, TestApp, eventually, payments::send_stripe_payment, status_of};
use time::OffsetDateTime;

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

/// Any client can send such callbacks.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_variable_is_one_line_a_minute_in_the_log_of_an_instance() {
    let (stack, http) = start_misconfigured(|variables| variables.set("webhook_secrets", "whsec_")).await;
    for _ in 0..100 {
        forge_standard(&http, b"").await.is_problem(503, "not_ready");
    }
    let output = stack.app.output();
    let lines = output.lines().filter(|line| line.contains("refusing to serve")).count();
    assert!((1..20).contains(&lines), "{lines} lines for 100 requests:\n{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_provider_that_opened_an_order_moves_it() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    // Stripe is not configured, although its secret is.
    send_stripe_payment(&app.http, &app.variables, &order_no).await.is_problem(404, "not_found");
    app.open_session(&order_no, &buyer.jwt).await;
    send_stripe_payment(&app.http, &app.variables, &order_no).await.is_problem(404, "not_found");
    app.wait_for_status(&order_no, &buyer.jwt, "pending_payment").await;
    app.pay(&order_no, &buyer.jwt).await;
}

/// The app's log when it has a text.
pub async fn log_up_to(app: &TestApp, last: &str) -> String {
    eventually("the last line of the log", async || {
        let text = app.log();
        if text.contains(last) { Ok(text) } else { Err(text.lines().last().unwrap_or_default().to_owned()) }
    })
    .await
}

/// A planted name has no part in common with other words.
const PLANTED: [&str; 6] =
    ["planted-buyer", "planted-mallory", "Planted Name", "17 Planted Lane", "198.51.100.213", "planted-reason"];

#[tokio::test(flavor = "multi_thread")]
async fn no_log_has_a_secret_a_user_or_an_address() {
    let app =
        TestApp::with_settings(&["--loglevel", "verbose"], |settings| settings.variables.set("trusted_hops", "1"));
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, PLANTED[0]).await;
    let order_no = app.place_order(&activity, &buyer).await;
    let address = json!({"address": {"name": PLANTED[2], "line1": PLANTED[3], "city": "London", "postal_code": "N1", "country": "GB"}});
    let checkout = app.http.post(&format!("/api/orders/{order_no}/checkout"), &buyer.jwt, &address).await.is(200);
    let session = checkout.text("checkout_url").rsplit('/').next().unwrap_or_default().to_owned();
    app.submit_payment(&session, "paid").await.is(200);
    app.refund(&order_no, &buyer.jwt).await;
    // Refused and failing calls, too, by every route that has a user, an address or a token in it.
    let (user, ip, reason) = (PLANTED[1], PLANTED[4], PLANTED[5]);
    let ban = json!({"seconds": 60, "reason": reason});
    for (method, path, body) in [
        (Method::PUT, format!("/bans/user/{user}"), ban.clone()),
        (Method::PUT, format!("/bans/ip/{ip}"), ban.clone()),
        (Method::PUT, format!("/bans/ip/{user}"), ban.clone()),
        (Method::PUT, format!("/bans/user/{user}"), json!({"seconds": 0, "reason": reason})),
        (Method::GET, format!("/bans?before=user/{user}"), Value::Null),
        (Method::GET, format!("/bans?before=ip/{ip}"), Value::Null),
        (Method::GET, format!("/strikes/{user}"), Value::Null),
        (Method::DELETE, format!("/strikes/{user}"), Value::Null),
        (Method::DELETE, format!("/bans/user/{user}"), Value::Null),
        (Method::GET, format!("/orders/{order_no}"), Value::Null),
    ] {
        app.call_admin(method.clone(), &path, &body).await;
        app.http.send(method, &format!("/api/admin{path}"), "planted-mallory-token", &body).await.is(401);
    }
    let headers = [("x-forwarded-for", ip.to_owned()), ("authorization", format!("Bearer {}", buyer.jwt))];
    for path in ["/api/orders", "/api/orders/none.01ARZ3NDEKTSV4RRFFQ69G5FAV", "/readyz", "/metrics"] {
        app.http.send_with_headers(Method::GET, path, &headers, "").await.expect("an answer");
    }
    let ticket = format!("/api/activities/{}/ticket", activity.id);
    app.http.send_with_headers(Method::POST, &ticket, &headers, "{").await.expect("an answer");
    app.send_callback("evt-unknown-order", &TestApp::callback_body("payment.succeeded", user, reason)).await;
    app.sweep().await;

    // The last call's line is in the file when the ones before are.
    let last = app.call_admin(Method::PUT, "/shed", &json!({"on": false})).await.header("x-request-id").to_owned();
    let text = log_up_to(&app, &last).await;
    assert!(text.contains("operator call refused") && text.contains("/api/admin/bans/user/:user"), "{text}");
    let redis_text = app.with_redis(|redis| redis.process().output());
    assert!(redis_text.contains("Ready to accept connections"), "{redis_text}");
    // What every test looks for when its app ends is not repeated here.
    let tokens = [buyer.jwt.as_str(), &buyer.ticket, &session, "planted-mallory-token"];
    for planted in PLANTED.into_iter().chain(tokens) {
        for (what, text) in [("the app's", &text), ("Redis's", &redis_text)] {
            let line = text.lines().find(|line| line.contains(planted));
            assert_eq!(line, None, "{what} log has {planted:?}");
        }
    }
}

/// Starts an app whose operators have these names and roles. Returns it with their tokens.
fn with_operators<const COUNT: usize>(roles: [&str; COUNT]) -> (TestApp, [String; COUNT]) {
    let tokens = roles.map(|_| format!("Zt5-{:032x}-9Qw", fastrand::u128(..)));
    let operators = roles.iter().zip(&tokens).map(|(role, token)| format!("{role}:{token}"));
    let operators = operators.collect::<Vec<_>>().join(" ");
    (TestApp::with_variables(|variables| variables.set("operator_tokens", operators)), tokens)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_do_what_the_roles_say_and_leaves_a_trace() {
    let (app, [ann, ben, mia]) = with_operators(["ann:read", "ben:operate", "mia:money"]);
    let activity = app.create_activity(json!({})).await;
    let call = async |method, path: &str, token: &str, body: &Value| {
        app.http.send(method, &format!("/api/admin{path}"), token, body).await
    };
    let pause = format!("/activities/{}/pause", activity.id);
    for token in [&ann, &ben, &mia] {
        call(Method::GET, "/activities", token, &Value::Null).await.is(200);
    }
    for token in [&ann, &mia] {
        call(Method::POST, &pause, token, &json!({})).await.is_problem(403, "forbidden");
        call(Method::PUT, "/bans/user/eve", token, &json!({"seconds": 60})).await.is_problem(403, "forbidden");
    }
    let order_no = format!("{}.01ARZ3NDEKTSV4RRFFQ69G5FAV", activity.id);
    for (action, allowed) in [("cancel", &mia), ("refund", &mia), ("extend", &ben)] {
        let body = if action == "extend" { json!({"seconds": 60}) } else { json!({"reason": "asked"}) };
        for token in [&ann, &ben, &mia] {
            let answer = call(Method::POST, &format!("/orders/{order_no}/{action}"), token, &body).await;
            let expected = if token == allowed { (404, "not_found") } else { (403, "forbidden") };
            answer.is_problem(expected.0, expected.1);
        }
    }
    for token in [&ann, &ben] {
        call(Method::POST, "/callbacks/x/refund", token, &json!({})).await.is_problem(403, "forbidden");
    }
    call(Method::POST, "/callbacks/x/refund", &mia, &json!({})).await.is_problem(404, "not_found");
    call(Method::POST, &pause, &ben, &json!({})).await.is(200);
    let path = format!("/activities/{}", activity.id);
    let mut cheaper = call(Method::GET, &path, &ann, &Value::Null).await.is(200).json();
    for member in ["id", "state", "version"] {
        cheaper.as_object_mut().expect("an activity").remove(member);
    }
    cheaper["skus"][0]["price"] = json!(1);
    call(Method::PUT, &path, &ben, &cheaper).await.is_problem(403, "forbidden");

    let last_change =
        async || call(Method::GET, "/changes?limit=1", &ann, &Value::Null).await.is(200).json()["items"][0].take();
    let before_and_after = |change: &Value, pointer: &str| {
        ["before", "after"].map(|side| {
            let document: Value = serde_json::from_str(change[side].as_str().expect("text")).expect("JSON");
            document.pointer(pointer).expect("a member").clone()
        })
    };
    let change = last_change().await;
    assert_eq!((change["operator"].as_str(), change["subject"].as_str()), (Some("ben"), Some(activity.id.as_str())));
    assert_eq!(change["action"], "POST /api/admin/activities/:activity/pause");
    assert_eq!(before_and_after(&change, "/state"), ["published", "paused"]);
    call(Method::POST, &format!("{path}/skus/a/restock"), &ben, &json!({"by": 1})).await.is(200);
    assert_eq!(before_and_after(&last_change().await, "/skus/0/total"), [10, 11]);

    // Events sent again name their order, which is in the body: a shop may ship a paid order twice.
    let order_no = format!("{}.01ARZ3NDEKTSV4RRFFQ69G5FAV", activity.id);
    for body in [json!({"order_no": order_no}), json!({"failed": true})] {
        call(Method::POST, "/events/replay", &ben, &body).await.is(202);
        let change = last_change().await;
        assert_eq!(change["action"], "POST /api/admin/events/replay");
        assert_eq!(change["subject"], body["order_no"].as_str().unwrap_or_default());
    }
}

/// Reads of personal data are traced to an operator, and a subject has one name and one hash however a path spells it.
#[tokio::test(flavor = "multi_thread")]
async fn who_read_data_about_buyers_is_in_the_log_and_a_subject_has_one_name() {
    let (app, [ann, ben]) = with_operators(["ann:read", "ben:operate+money"]);
    let activity = app.create_activity(json!({"eligibility": {"allow": ["cyd", "invited-user"]}})).await;
    let buyer = app.create_buyer(&activity, "cyd").await;
    let order_no = app.place_order(&activity, &buyer).await;
    app.open_session(&order_no, &buyer.jwt).await;
    let call = async |method, path: &str, token: &str, body: &Value| {
        app.http.send(method, &format!("/api/admin{path}"), token, body).await
    };
    let page = format!("/activities/{}/orders?before={}.00000000000000000000000000", activity.id, activity.id);
    for token in [&ann, &ben] {
        call(Method::GET, &page, token, &Value::Null).await.is(200);
        call(Method::GET, &format!("/orders/{order_no}"), token, &Value::Null).await.is(200);
        let document = call(Method::GET, &format!("/activities/{}", activity.id), token, &Value::Null).await.is(200);
        assert!(document.body.contains("invited-user"), "{document:?}");
    }
    for user in ["mallory", "%6dallory", "m%61llory"] {
        let ban = json!({"seconds": 60, "reason": "lives at 7 Planted Lane"});
        call(Method::PUT, &format!("/bans/user/{user}"), &ben, &ban).await.is(200);
    }
    call(Method::GET, "/strikes/cyd", &ben, &Value::Null).await.is(200);
    for ip in ["2001:db8::7", "2001:DB8:0::1", "2001%3Adb8%3A%3A5"] {
        call(Method::PUT, &format!("/bans/ip/{ip}"), &ben, &json!({"seconds": 60})).await.is(200);
    }
    let other = app.create_activity(json!({})).await;
    let unwritten = app.create_buyer(&other, "dan").await.order_no();
    let unknown_order = TestApp::callback_body("payment.succeeded", &unwritten, "s");
    for id in ["evt_1", "evt_2"] {
        app.send_callback(id, &unknown_order).await.is(204);
    }
    let dismiss = |id: &str| format!("/callbacks/{id}/dismiss");
    call(Method::POST, &dismiss("evt%00_1"), &ben, &Value::Null).await.is_problem(404, "not_found");
    for id in ["evt_1", "%65vt_2"] {
        call(Method::POST, &dismiss(id), &ben, &Value::Null).await.is(200);
    }
    for _ in 0..200 {
        call(Method::GET, "/activities", "planted-token", &Value::Null).await.is(401);
    }
    let last = call(Method::DELETE, "/bans/user/mallory", &ben, &Value::Null).await.header("x-request-id").to_owned();
    let text = log_up_to(&app, &last).await;
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |event: &str, route: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["event"] == event && (route.is_empty() || line["route"] == route)).collect()
    };
    for route in
        ["/api/admin/activities/:activity/orders", "/api/admin/orders/:order_no", "/api/admin/activities/:activity"]
    {
        let names: Vec<_> = of("operator read", route).iter().map(|line| line["operator"].clone()).collect();
        assert_eq!(names, ["ann", "ben"], "{route}");
    }
    assert!(of("operator read", "").iter().any(|line| line["before"].is_string()), "{text}");
    for route in ["/api/admin/bans/user/:user", "/api/admin/bans/ip/:ip"] {
        let calls = of("operator call", route);
        let hashes: std::collections::BTreeSet<_> = calls.iter().map(|line| line["subject"].to_string()).collect();
        assert!(calls.len() >= 3 && hashes.len() == 1, "{route}: {calls:?}");
    }
    let changes = call(Method::GET, "/changes", &ann, &Value::Null).await.is(200).json();
    let subjects: Vec<_> =
        changes["items"].as_array().expect("changes").iter().map(|change| &change["subject"]).collect();
    for (subject, number) in [("mallory", 4), ("2001:db8:0:0::/64", 3), ("evt_1", 1), ("evt_2", 1)] {
        assert_eq!(subjects.iter().filter(|name| **name == subject).count(), number, "{subjects:?}");
    }
    // Changes are kept for ever, the users who may take part only as long as the sale.
    let changes = changes.to_string();
    assert!(changes.contains("2 users, ") && !changes.contains("invited-user"), "{changes}");
    assert!(!changes.contains("Planted Lane"), "{changes}");
    // One line a second and instance, and none for each call.
    let unauthenticated = of("operator calls without a valid token", "");
    assert!((1..100).contains(&unauthenticated.len()), "{unauthenticated:?}");
    let refused: Vec<_> = of("operator call refused", "").iter().map(|line| line["route"].clone()).collect();
    assert_eq!(refused, ["/api/admin/callbacks/:id/dismiss"], "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_not_exactly_a_route_is_not_found() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let gate = format!("/api/activities/{}/gate.json", activity.id);
    let status = async |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nhost: x\r\n");
        status_of(Ipv4Addr::LOCALHOST, app.port(), head.as_bytes()).await
    };
    assert_eq!(status(&gate).await, "200");
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
        assert_eq!(status(target).await, "404", "{target}");
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
        for store in ["redis", "ledger", "key_value"] {
            assert_eq!(ready.json()["checks"][store], "ok", "{ready:?}");
        }
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
