//! Start-up and readiness checks: strong secrets (G7), a Redis that keeps its data, and a ledger schema that is not
//! newer.

use std::time::Duration;

use dev::{ports, redis::Redis, test_stack::TestStack, variables::Variables};
use reqwest::Method;
use serde_json::json;
use support::{Claims, HttpClient, TestApp, activity::activity_spec, eventually, eventually_is};
use tempfile::TempDir;

/// The secrets without which the app does not serve.
const SECRETS: [&str; 6] = ["jwt_key", "ticket_secret", "admin_token", "cron_token", "address_key", "webhook_secrets"];

/// Starts an app after `change` has made the secret `name` invalid, and asserts that the app reports it.
///
/// Either the app does not start and names the variable; or `/readyz` and the log name it, and the routes that need it
/// refuse. `case` describes the change in failure messages.
async fn assert_refused(name: &str, case: &str, change: impl FnOnce(&mut Variables) + Send + 'static) {
    let started = tokio::task::spawn_blocking(|| TestStack::start(change)).await.expect("a start");
    let stack = match started {
        Ok(stack) => stack,
        Err(error) => {
            let message = format!("{error:#}");
            assert!(message.contains(name), "{case} {name}: the error does not name the variable: {message}");
            return;
        }
    };
    let http = HttpClient::new(stack.app.url());
    let metrics_token = stack.app.settings().variables.get("metrics_token");
    let ready = http.get("/readyz", metrics_token).await;
    assert_eq!(ready.status, 503, "{case} {name}: {ready:?}");
    assert!(ready.body.contains(name), "{case} {name}: not named by {ready:?}");
    let variables = &stack.app.settings().variables;
    let (admin, cron) = (variables.get("admin_token"), variables.get("cron_token"));
    let jwt = Claims::for_user("ada", variables).sign(variables);
    let reservation = json!({"sku": "a", "quantity": 1, "ticket": "1.", "start_key": ""});
    let response = match name {
        "admin_token" => http.send(Method::PUT, "/api/admin/activities/x", admin, &activity_spec(&json!({}))).await,
        "cron_token" => http.post("/api/tasks/sweep", cron, &json!(null)).await,
        "address_key" => http.get("/api/admin/orders/demo.01ARZ3NDEKTSV4RRFFQ69G5FAV", admin).await,
        "jwt_key" | "jwt_jwks_url" => http.get("/api/orders", &jwt).await,
        "webhook_secrets" => http.post("/api/payments/webhook", "", &json!({})).await,
        _ => http.post("/api/activities/x/orders", "", &reservation).await,
    };
    let response = response.is_problem(503, "not_ready");
    assert!(!response.body.contains(name), "{case} {name}: a public response names the variable: {response:?}");
    // The log is read through a pipe and may arrive after the response.
    eventually(&format!("{case} {name} in the log"), async || {
        let output = stack.app.output();
        if output.contains(name) { Ok(()) } else { Err(output) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_without_a_secret_or_with_a_short_one_serves_nothing_that_needs_it() {
    for name in SECRETS {
        assert_refused(name, "no", move |variables| variables.remove(name)).await;
        let short = if name == "webhook_secrets" { "whsec_c2hvcnQ=" } else { "short" };
        assert_refused(name, "a short", move |variables| variables.set(name, short)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_may_be_called_from_what_is_no_origin_serves_no_buyer() {
    for value in ["*", "https://shop.example/", "shop.example"] {
        assert_refused("cors_origins", value, move |variables| variables.set("cors_origins", value)).await;
    }
}

/// Anybody on the way to the issuer could publish a key and sign in as any user.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_would_fetch_sign_in_keys_over_plain_http_serves_no_buyer() {
    assert_refused("jwt_jwks_url", "a plain http", |variables| {
        for (name, value) in [
            ("jwt_key", ""),
            ("jwt_algorithm", "RS256"),
            ("jwt_jwks_host", "http://id.example"),
            ("jwt_jwks_url", "http://id.example/jwks"),
        ] {
            variables.set(name, value);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_buyers_could_not_pay_publishes_no_activity() {
    let start = || {
        TestStack::start(|variables| {
            variables.set("sandbox", "off");
            variables.set("payment_provider", "stripe");
        })
    };
    let stack = tokio::task::spawn_blocking(start).await.expect("a start").expect("an app");
    let (http, token) = (HttpClient::new(stack.app.url()), stack.app.settings().variables.get("admin_token"));
    http.send(Method::PUT, "/api/admin/activities/x", token, &activity_spec(&json!({}))).await.is(200);
    let refused = http.post("/api/admin/activities/x/publish", token, &json!({})).await.is_problem(503, "not_ready");
    assert!(refused.body.contains("stripe_api_key"), "{refused:?}");
    assert_eq!(http.get("/api/admin/activities/x", token).await.is(200).text("state"), "draft");
    http.post("/api/admin/activities/x/resume", token, &json!({})).await.is_problem(503, "not_ready");
}

/// It would write to a file of this machine, and lose it with the machine.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_whose_ledger_is_neither_sqlite_nor_a_url_writes_to_none() {
    for value in ["\"postgres://app:secret@127.0.0.1:1/shop\"", ""] {
        let start = move || TestStack::start(move |variables| variables.set("ledger", value));
        let stack = tokio::task::spawn_blocking(start).await.expect("a start").expect("an app");
        let (http, variables) = (HttpClient::new(stack.app.url()), &stack.app.settings().variables);
        let ready = http.get("/readyz", variables.get("metrics_token")).await.is_problem(503, "not_ready");
        assert!(ready.body.contains("the variable ledger is neither sqlite nor the URL"), "{value:?}: {ready:?}");
        let path = "/api/admin/activities/x";
        let put = http.send(Method::PUT, path, variables.get("admin_token"), &activity_spec(&json!({}))).await;
        assert_eq!(put.status, 503, "{value:?}: {put:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_may_lose_data_is_not_ready() {
    let app = TestApp::dedicated();
    let mut redis = app.connect_redis().await;
    for (setting, bad, good) in [("maxmemory-policy", "allkeys-lru", "noeviction"), ("appendonly", "no", "yes")] {
        let set = async |redis: &mut redis::aio::MultiplexedConnection, value: &str| {
            redis::cmd("CONFIG").arg(&["SET", setting, value]).query_async::<()>(redis).await.expect("set");
        };
        set(&mut redis, bad).await;
        let readiness = eventually_is("readiness to fall", 503, async || {
            app.http.get("/readyz", app.variables.get("metrics_token")).await
        })
        .await;
        assert!(readiness.body.contains(setting), "{readiness:?}");
        set(&mut redis, good).await;
        app.with_app(|app| app.wait_until_ready()).expect("ready again");
    }
    app.http.get("/healthz", "").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_whose_replicas_keep_its_data_needs_no_file_and_a_replica() {
    let (app, temp_dir) = (TestApp::dedicated(), TempDir::new().expect("a directory"));
    let master = app.with_redis(|redis| redis.port()).to_string();
    let port = ports::pick_unused().expect("a port");
    let replicaof = ["--replicaof", "127.0.0.1", &master];
    let mut replica = Redis::start_with(temp_dir.path(), port, None, &replicaof).expect("a replica");
    let mut redis = app.connect_redis().await;
    redis::cmd("CONFIG").arg(&["SET", "appendonly", "no"]).query_async::<()>(&mut redis).await.expect("set");
    app.restart_with(|variables| variables.set("redis_durability", "replication"));
    let readiness = async || app.http.get("/readyz", app.variables.get("metrics_token")).await;
    eventually_is("the replica to be there", 200, readiness).await;
    replica.kill();
    let readiness = eventually_is("readiness to fall", 503, readiness).await;
    assert!(readiness.body.contains("has no replica"), "{readiness:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_with_a_newer_schema_is_not_ready() {
    let app = TestApp::dedicated();
    if app.variables.get("ledger") != "sqlite" {
        return;
    }
    let ledger = rusqlite::Connection::open(app.ledger_file()).expect("the ledger");
    ledger.busy_timeout(Duration::from_secs(10)).expect("a busy timeout");
    ledger.execute("INSERT INTO schema_versions (version) VALUES (9999)", []).expect("a row");
    let readiness = app.http.get("/readyz", app.variables.get("metrics_token")).await.is_problem(503, "not_ready");
    assert!(readiness.body.contains("the schema is version 9999, this app needs"), "{readiness:?}");
    ledger.execute("DELETE FROM schema_versions WHERE version = 9999", []).expect("a row");
    app.http.get("/readyz", app.variables.get("metrics_token")).await.is(200);
}
