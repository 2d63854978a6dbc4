//! `GET /metrics`: what Redis and the ledger have of sales, and what all instances did (G6, G20).

use std::time::{SystemTime, UNIX_EPOCH};

use futures::{StreamExt, stream};
use serde_json::json;
use support::{Response, TestApp, eventually};

async fn metrics(app: &TestApp) -> String {
    app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200).body
}

/// The samples of a metric with labels, all of which each must have.
fn samples(metrics: &str, name: &str, labels: &[&str]) -> Vec<f64> {
    let lines =
        metrics.lines().filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)));
    lines.map(|line| line.rsplit(' ').next().expect("a value").parse().expect("a number")).collect()
}

#[tokio::test]
async fn the_metrics_count_an_activity() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    app.place_order(&activity, &buyer).await;
    let metrics = app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200);
    assert!(metrics.header("content-type").starts_with("text/plain"), "{metrics:?}");
    let sample_value = |metrics: &Response, name: &str| {
        let labels = format!("{name}{{activity=\"{}\"", activity.id);
        let line = metrics.body.lines().find(|line| line.starts_with(&labels));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    // The activities, and the audit figures, are read anew from time to time.
    eventually("the figures of the activity", async || {
        let metrics = app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200);
        let names = ["stampede_stock_left", "stampede_units_held", "stampede_audit_ok", "stampede_drift"];
        let values = names.map(|name| sample_value(&metrics, name).unwrap_or_default());
        if values == ["9", "1", "1", "0"] { Ok(()) } else { Err(format!("{values:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_counted_and_one_in_sixteen_measured() {
    const REQUESTS: usize = 2_000;
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({})).await;
    let path = |index: usize| match index % 4 {
        0 => format!("/api/activities/{}/calendar.ics", activity.id),
        1 => format!("/api/activities/nobody-{index}/gate.json"),
        2 => "/api/activities/no/such/path".to_owned(),
        _ => "/api/orders/made-up".to_owned(),
    };
    let requests = stream::iter(0..REQUESTS).map(async |index| app.http.get(&path(index), "").await);
    assert_eq!(requests.buffer_unordered(16).count().await, REQUESTS);
    let calendar = "http_route=\"/api/activities/:activity/calendar.ics\"";
    let gate = "http_route=\"/api/activities/:activity/gate.json\"";
    let order = "http_route=\"/api/orders/:order_no\"";
    let metrics = eventually("all of them to be counted", async || {
        let metrics = metrics(&app).await;
        let of = |labels: &[&str]| samples(&metrics, "stampede_http_requests_total", labels);
        let found = [
            of(&[calendar, "http_request_method=\"GET\"", "code=\"200\""]),
            of(&[gate, "code=\"404\""]),
            of(&["http_route=\"\"", "code=\"404\""]),
            of(&[order, "code=\"401\""]),
        ];
        if found == [[500.0], [500.0], [500.0], [500.0]] { Ok(metrics) } else { Err(format!("{found:?}")) }
    })
    .await;
    let measured: f64 = samples(&metrics, "http_server_request_duration_seconds_count", &[]).iter().sum();
    assert!((60.0..=300.0).contains(&measured), "{measured} of {REQUESTS} and a few more");
    let all = samples(&metrics, "http_server_request_duration_seconds_bucket", &[gate, "le=\"+Inf\""]);
    let shorter = samples(&metrics, "http_server_request_duration_seconds_bucket", &[gate, "le=\"10\""]);
    assert!(shorter[0] <= all[0] && all == samples(&metrics, "http_server_request_duration_seconds_count", &[gate]));
    assert!(
        samples(&metrics, "stampede_store_calls_total", &["store=\"redis\",kind=\"script\",result=\"ok\""])[0] > 0.0
    );
    assert!(
        samples(&metrics, "stampede_store_calls_total", &["store=\"ledger\",kind=\"read\",result=\"ok\""])[0] > 0.0
    );
}

#[tokio::test]
async fn the_metrics_say_what_the_writer_and_the_sweeper_did() {
    let app = TestApp::dedicated();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    app.pay_by_callback(&order_no, &buyer.jwt).await;
    app.sweep().await;
    eventually("the work to be counted", async || {
        let metrics = metrics(&app).await;
        let of = |name, labels: &[&str]| samples(&metrics, name, labels).iter().sum::<f64>();
        let found = [
            of("stampede_messages_total", &["result=\"written\""]),
            of("stampede_sweeps_total", &["result=\"ok\""]),
            of("stampede_callbacks_total", &["result=\"changed\""]),
        ];
        let seen = ["stampede_sweep_last_success_timestamp_seconds", "stampede_writer_last_success_timestamp_seconds"];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let ages = seen.map(|name| now - of(name, &[]));
        if found == [1.0, 1.0, 1.0] && ages.iter().all(|age| (-1.0..120.0).contains(age)) {
            Ok(())
        } else {
            Err(format!("{found:?} {ages:?}"))
        }
    })
    .await;
}
