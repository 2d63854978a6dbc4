//! Without strong secrets nothing is served (G7).

use std::time::Duration;

use dev::{throwaway::Throwaway, variables::Variables};
use serde_json::json;

use support::{Claims, Http, activity::description, eventually};

/// The secrets without which there is no sale.
const SECRETS: [&str; 6] = ["jwt_key", "ticket_secret", "admin_token", "cron_token", "address_key", "webhook_secrets"];

/// Starts an app with changed variables. Either it does not start, and says which variable is wrong; or it says so at
/// `/readyz`, and refuses what the variable is for.
async fn refuses(name: &str, what: &str, change: impl FnOnce(&mut Variables) + Send + 'static) {
    let started = tokio::task::spawn_blocking(|| Throwaway::start(change)).await.expect("a start");
    let stampede = match started {
        Ok(stampede) => stampede,
        Err(error) => {
            let said = format!("{error:#}");
            assert!(said.contains(name), "{what} {name}: ended without naming it: {said}");
            return;
        }
    };
    let http = Http::new(stampede.app.url());
    let ready = http.get("/readyz", "").await;
    assert_eq!(ready.status, 503, "{what} {name}: {ready:?}");
    assert!(ready.body.contains(name), "{what} {name}: not named by {ready:?}");
    let variables = &stampede.app.settings().variables;
    let (admin, cron) = (variables.get("admin_token"), variables.get("cron_token"));
    let jwt = Claims::of("ada", variables).sign(variables);
    let answer = match name {
        "admin_token" => {
            http.send(reqwest::Method::PUT, "/api/admin/activities/x", admin, &description(&json!({}))).await
        }
        "cron_token" => http.post("/api/tasks/sweep", cron, &json!(null)).await,
        "address_key" => http.get("/api/admin/orders/demo.01ARZ3NDEKTSV4RRFFQ69G5FAV", admin).await,
        "jwt_key" => http.get("/api/orders", &jwt).await,
        "webhook_secrets" => http.post("/api/payments/webhook", "", &json!({})).await,
        _ => {
            http.post(
                "/api/activities/x/orders",
                "",
                &json!({"sku": "a", "quantity": 1, "ticket": "1.", "start_key": ""}),
            )
            .await
        }
    };
    let refused = (answer.status, answer.code());
    let closed = name == "webhook_secrets" && refused == (401, "signature_invalid".to_owned());
    assert!(refused == (503, "not_ready".to_owned()) || closed, "{what} {name}: {answer:?}");
    // The log comes through a pipe: it may be a moment behind the answer.
    eventually(&format!("{what} {name} in the log"), async || {
        let output = stampede.app.output();
        if closed || output.contains(name) { Ok(()) } else { Err(output) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_without_a_secret_serves_nothing_that_needs_it() {
    for name in SECRETS {
        refuses(name, "no", move |variables| variables.remove(name)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_with_an_empty_short_or_example_secret_serves_nothing_that_needs_it() {
    for name in SECRETS {
        let (prefix, encoded) = if name == "webhook_secrets" { ("whsec_", "c2hvcnQ=") } else { ("", "short") };
        refuses(name, "an empty", move |variables| variables.set(name, "")).await;
        refuses(name, "a short", move |variables| variables.set(name, format!("{prefix}{encoded}"))).await;
    }
    for name in &SECRETS[..5] {
        refuses(name, "an example", move |variables| {
            variables.set(name, "change-me-change-me-change-me-change-me-1234")
        })
        .await;
        refuses(name, "a monotonous", move |variables| variables.set(name, "a".repeat(64))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_may_forget_is_not_ready() {
    let app = support::TestApp::own();
    let mut redis = app.redis().await;
    for (setting, bad, good) in [("maxmemory-policy", "allkeys-lru", "noeviction"), ("appendonly", "no", "yes")] {
        let set = async |redis: &mut redis::aio::MultiplexedConnection, value: &str| {
            redis::cmd("CONFIG").arg(&["SET", setting, value]).query_async::<()>(redis).await.expect("set");
        };
        set(&mut redis, bad).await;
        let said = eventually("readiness to fall", async || {
            let ready = app.http.get("/readyz", "").await;
            if ready.status == 503 { Ok(ready) } else { Err(ready.body) }
        })
        .await;
        assert!(said.body.contains(setting), "{said:?}");
        set(&mut redis, good).await;
        app.with_app(|app| app.wait_until_ready()).expect("ready again");
    }
    tokio::time::timeout(Duration::from_secs(30), app.http.get("/healthz", ""))
        .await
        .expect("alive all the time")
        .is(200);
}
