//! A Redis that is unreachable, slow, restarted, full, read-only, emptied or replaced (D8, G5; I1, I4, I7).
//!
//! Every route that needs it returns `503` with `Retry-After` within seconds, never a wrong result, and recovers
//! without a restart of the app.

use std::time::{Duration, Instant};

use dev::{manifest::Manifest, ports, proxy::Proxy, redis::Redis};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, Response, TestActivity, TestApp, activity::single_sku, eventually, eventually_is};
use tempfile::TempDir;

/// Longest response time while Redis fails.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(12);

/// Starts an app that reaches Redis through a proxy.
///
/// It has no Redis trigger, since that would end the process when Redis is gone.
fn start_behind_proxy() -> (TestApp, Proxy) {
    let mut proxy = None;
    let app = TestApp::with_settings(&[], |settings| {
        settings.components = Manifest::read(&settings.root).expect("a manifest").components_for("http");
        let variables = &mut settings.variables;
        let port = variables.get("redis_url").rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let to_redis = Proxy::start(port.expect("a port")).expect("a proxy");
        variables.set_redis(&format!("redis://127.0.0.1:{}", to_redis.port())).expect("a URL");
        proxy = Some(to_redis);
    });
    (app, proxy.expect("a proxy"))
}

/// The state before the failure: a buyer with an order in the ledger, and one who has not ordered yet.
struct Fixture {
    activity: TestActivity,
    first_buyer: Buyer,
    order_no: String,
    second_buyer: Buyer,
}

async fn create_fixture(app: &TestApp) -> Fixture {
    let activity = app.create_activity(json!({"skus": single_sku(10)})).await;
    let (first_buyer, second_buyer) =
        (app.create_buyer(&activity, "winner").await, app.create_buyer(&activity, "next").await);
    let order_no = app.reserve(&activity, &first_buyer, "a", 1).await.is(202).text("order_no");
    app.sweep_until_written(&order_no, &first_buyer.ticket).await;
    Fixture { activity, first_buyer, order_no, second_buyer }
}

/// Sends one request to a route that needs Redis, and asserts that its response is in time.
async fn request_route(app: &TestApp, fixture: &Fixture, route: &str) -> Response {
    let Fixture { activity, first_buyer, order_no, second_buyer } = fixture;
    let start = Instant::now();
    let response = match route {
        "reserve" => app.reserve(activity, second_buyer, "a", 1).await,
        "status" => app.get_order(order_no, &first_buyer.ticket).await,
        "ticket" => app.request_ticket(&activity.id, &second_buyer.jwt).await,
        "challenge" => app.request_challenge(activity, &second_buyer.jwt, &json!({})).await,
        "gate script" => app.http.get(&format!("/api/activities/{}/gate.js", activity.id), "").await,
        "gate" => app.http.get(&format!("/api/activities/{}/gate.json", activity.id), "").await,
        "info" => app.http.get(&format!("/api/activities/{}", activity.id), "").await,
        "sweep" => app.http.post("/api/tasks/sweep", app.variables.get("cron_token"), &Value::Null).await,
        "stats" => app.call_admin(Method::GET, &format!("/activities/{}/stats", activity.id), &Value::Null).await,
        "audit" => app.call_admin(Method::GET, &format!("/activities/{}/audit", activity.id), &Value::Null).await,
        "ready" => app.http.get("/readyz", app.variables.get("metrics_token")).await,
        other => panic!("no route {other}"),
    };
    let elapsed = start.elapsed();
    assert!(elapsed < MAX_RESPONSE_TIME, "{route} took {elapsed:?}: {response:?}");
    response
}

/// Names of routes that need Redis, for [`request_route`].
const REDIS_ROUTES: [&str; 7] = ["reserve", "ticket", "gate", "sweep", "stats", "audit", "ready"];

/// Polls until each route returns `503`: instances cache some values for a second. Routes without Redis still work.
async fn assert_unavailable(app: &TestApp, fixture: &Fixture, routes: &[&str]) {
    let checks = routes.iter().map(async |route| {
        eventually(&format!("{route} to say that Redis is in trouble"), async || {
            let response = request_route(app, fixture, route).await;
            assert!(matches!(response.status, 200 | 201 | 409 | 503), "{route}: {response:?}");
            if response.status == 503 { Ok(response.is_problem(503, "not_ready")) } else { Err(response.body) }
        })
        .await;
    });
    join_all(checks).await;
    app.http.get("/healthz", "").await.is(200);
    app.http.get("/", "").await.is(200);
}

/// Asserts that the app recovered without a restart.
///
/// The earlier order still exists, the second buyer can reserve, and the stock (left, held, sold) is as `expected`.
async fn assert_recovered(app: &TestApp, fixture: &Fixture, expected: [i64; 3]) {
    eventually_is("the app to be ready", 200, async || request_route(app, fixture, "ready").await).await;
    let order_no = eventually_is("reservations to work again", 202, async || {
        app.reserve(&fixture.activity, &fixture.second_buyer, "a", 1).await
    })
    .await
    .text("order_no");
    assert_eq!(app.finish_and_count(&fixture.activity).await, expected);
    app.wait_for_status(&order_no, &fixture.second_buyer.ticket, "pending_payment").await;
    let before = app.get_order(&fixture.order_no, &fixture.first_buyer.ticket).await.is(200);
    assert_eq!(before.text("status"), "pending_payment", "{before:?}");
    for route in REDIS_ROUTES.into_iter().chain(["info"]) {
        let status = request_route(app, fixture, route).await.status;
        assert!(matches!(status, 200..=202), "{route}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_redis_is_reported_and_recovered_from() {
    let (app, proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    for _ in 0..2 {
        proxy.disable();
        assert_unavailable(&app, &fixture, &REDIS_ROUTES).await;
        // The metrics still report the ledger's figures.
        let metrics = app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200);
        for line in
            ["stampede_store_up{store=\"redis\"} 0", "stampede_store_up{store=\"ledger\"} 1", "stampede_refunds_open "]
        {
            assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
        }
        request_route(&app, &fixture, "status").await.is(200);
        proxy.enable();
        eventually_is("figures again", 200, async || request_route(&app, &fixture, "stats").await).await;
    }
    assert_recovered(&app, &fixture, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_redis_is_logged_once_a_second_however_many_requests_fail() {
    const REQUESTS: usize = 300;
    let (app, proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    proxy.disable();
    assert_unavailable(&app, &fixture, &["stats"]).await;
    let lines = || -> Vec<Value> {
        let output = app.with_app(|app| app.output());
        let events = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|line| line["event"] == "store unavailable").collect()
    };
    let earlier = lines().len();
    let start = Instant::now();
    for _ in 0..REQUESTS {
        request_route(&app, &fixture, "stats").await.is_problem(503, "not_ready");
    }
    // The line of the next second has the number of requests that failed meanwhile. Some other instance may have answered
    // a part of them.
    eventually("a line with the number of failed requests", async || {
        request_route(&app, &fixture, "stats").await.is_problem(503, "not_ready");
        let most = lines().iter().filter_map(|line| line["number"].as_u64()).max();
        if most > Some(REQUESTS as u64 / 4) { Ok(()) } else { Err(format!("{most:?}")) }
    })
    .await;
    let (logged, seconds) = (lines().len(), start.elapsed().as_secs() as usize);
    let most = earlier + 4 * (seconds + 2);
    assert!(logged <= most && most < REQUESTS, "{logged} lines for {REQUESTS} requests in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_shown_without_its_stock_while_redis_is_unreachable() {
    let (app, proxy) = start_behind_proxy();
    let activity = app.create_activity(json!({"title": "Spring", "per_user": 3, "skus": single_sku(10)})).await;
    let path = format!("/api/activities/{}", activity.id);
    let shown = async |what: &str, left: Value| {
        eventually(what, async || {
            let info = app.http.get(&path, "").await.is(200).json();
            let members = [&info["title"], &info["phase"], &info["per_user"]];
            assert_eq!(members, [&json!("Spring"), &json!("open"), &json!(3)], "{info}");
            let sku = &info["skus"][0];
            let members = [&sku["sku"], &sku["price"], &sku["total"]];
            assert_eq!(members, [&json!("a"), &json!(1000), &json!(10)], "{info}");
            assert_eq!(sku["as_of"].is_null(), sku["left"].is_null(), "{info}");
            if sku["left"] == left { Ok(()) } else { Err(info.to_string()) }
        })
        .await;
    };
    shown("the stock", json!(10)).await;
    proxy.disable();
    shown("the stock to be unknown", Value::Null).await;
    app.http.get("/api/activities/no-such-sale", "").await.is_problem(503, "not_ready");
    proxy.enable();
    shown("the stock again", json!(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_redis_is_reported_in_time_and_a_retried_reservation_makes_one_order() {
    let (app, proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    // Well beyond the app's Redis timeout (1.5 s), so that every call times out on a slow machine, too.
    proxy.set_delay(Duration::from_secs(5));
    assert_unavailable(&app, &fixture, &REDIS_ROUTES).await;
    // Retries with the same ticket while the outcome of the first reservation is unknown.
    let responses = join_all((0..8).map(|_| request_route(&app, &fixture, "reserve"))).await;
    assert!(responses.iter().all(|response| matches!(response.status, 202 | 503)), "{responses:?}");
    // Slightly above the Redis timeout: on a slow machine some replies arrive in time.
    proxy.set_delay(Duration::from_secs(2));
    let responses: Vec<_> = join_all(REDIS_ROUTES.map(|route| request_route(&app, &fixture, route))).await;
    assert!(responses.iter().all(|response| matches!(response.status, 200..=202 | 409 | 503)), "{responses:?}");
    assert!(responses.iter().any(|response| response.status == 503), "{responses:?}");
    proxy.set_delay(Duration::ZERO);
    assert_recovered(&app, &fixture, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buyers_pay_and_cancel_while_redis_is_stopped_which_follows_later() {
    const PAYING: usize = 40;
    let (app, _proxy) = start_behind_proxy();
    let activity = app.create_activity(json!({"skus": single_sku(PAYING as i64 + 2)})).await;
    let buyers = app.create_buyers(&activity, PAYING + 2).await;
    let reserve = async |buyer| (app.reserve(&activity, buyer, "a", 1).await.is(202).text("order_no"), buyer);
    let written = join_all(buyers[1..].iter().map(reserve)).await;
    eventually("the orders to be written", async || {
        app.sweep().await;
        let orders = app.count_orders(&activity.id, "status = 'pending_payment'").await;
        if orders == PAYING as i64 + 1 { Ok(()) } else { Err(orders) }
    })
    .await;
    let ((queued, early), (cancelled, other)) = (reserve(&buyers[0]).await, &written[PAYING]);
    app.with_redis(|redis| redis.kill());
    join_all(written[..PAYING].iter().map(async |(order_no, buyer)| {
        let status = async || app.get_order(order_no, &buyer.ticket).await.is(200).text("status");
        assert_eq!(status().await, "pending_payment");
        app.pay_by_callback(order_no, &buyer.jwt).await;
        assert_eq!(status().await, "paid");
    }))
    .await;
    assert_eq!(app.cancel(cancelled, &other.jwt).await.is(200).text("status"), "cancelled");
    for response in [app.checkout(&queued, &early.jwt).await, app.get_order(&queued, &early.ticket).await] {
        response.is_problem(503, "not_ready");
    }
    assert_eq!(app.count_orders(&activity.id, "status = 'paid'").await, PAYING as i64);
    app.with_redis(|redis| redis.restart()).expect("redis-server");
    assert_eq!(app.finish_and_count(&activity).await, [1, 1, PAYING as i64]);
    app.wait_for_status(&written[0].0, &written[0].1.ticket, "paid").await;
}

/// Redis answers after the callback: it does not wait for a sweep either.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_redis_delays_no_answer_about_money_and_hears_of_it_without_a_sweep() {
    let (app, proxy) = start_behind_proxy();
    let Fixture { first_buyer: buyer, order_no, .. } = create_fixture(&app).await;
    proxy.set_delay(Duration::from_millis(800));
    let start = Instant::now();
    app.pay_by_callback(&order_no, &buyer.jwt).await;
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_millis(800), "a checkout and a callback took {elapsed:?}");
    app.wait_for_status(&order_no, &buyer.ticket, "paid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_accepts_no_reservation_and_still_serves_reads() {
    let (app, _proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    let mut redis = app.connect_redis().await;
    let mut set_maxmemory = async |bytes: &str| {
        redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).query_async::<()>(&mut redis).await.expect("set");
    };
    set_maxmemory("1mb").await;
    assert_unavailable(&app, &fixture, &["reserve", "ready"]).await;
    let readiness = request_route(&app, &fixture, "ready").await.is_problem(503, "not_ready").json();
    assert!(readiness["checks"]["redis"].as_str().is_some_and(|redis| redis.starts_with("is full")), "{readiness}");
    request_route(&app, &fixture, "status").await.is(200);
    request_route(&app, &fixture, "gate").await.is(200);
    set_maxmemory("0").await;
    assert_recovered(&app, &fixture, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_failed_half_way_is_among_the_changes() {
    let (app, proxy) = start_behind_proxy();
    let activity = app.create_activity(json!({})).await;
    app.call_admin(Method::PUT, "/bans/user/eve", &json!({"seconds": 60, "reason": "x"})).await.is(200);
    proxy.disable();
    // The ledger has both changes, and Redis neither.
    app.call_admin(Method::DELETE, "/bans/user/eve", &Value::Null).await.is(503);
    app.call_admin(Method::POST, &format!("/activities/{}/pause", activity.id), &Value::Null).await.is(503);
    proxy.enable();
    let changes = app.call_admin(Method::GET, "/changes?limit=2", &Value::Null).await.is(200).json()["items"].take();
    for (change, action) in [(&changes[0], "POST /api/admin/activities/:activity/pause"), (&changes[1], "DELETE")] {
        assert!(change["action"].as_str().is_some_and(|text| text.starts_with(action)), "{change}");
        let after: Value = serde_json::from_str(change["after"].as_str().expect("a text")).expect("JSON");
        assert_eq!(after["refused"], Value::Null, "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_replicas_or_a_redis_password_are_reported_and_recovered_from() {
    let (app, proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    // Connect directly, not through the proxy.
    let client = redis::Client::open(app.with_redis(|redis| redis.url())).expect("a URL");
    let mut redis = client.get_multiplexed_async_connection().await.expect("Redis");
    let mut set = async |name: &str, value: &str| {
        redis::cmd("CONFIG").arg(&["SET", name, value]).query_async::<()>(&mut redis).await.expect("set");
    };
    set("min-replicas-to-write", "1").await;
    assert_unavailable(&app, &fixture, &["reserve"]).await;
    set("min-replicas-to-write", "0").await;
    // Existing connections stay authenticated; cut them, so that new ones need the password.
    set("requirepass", "secret").await;
    proxy.disable();
    proxy.enable();
    assert_unavailable(&app, &fixture, &REDIS_ROUTES).await;
    let readiness = request_route(&app, &fixture, "ready").await.is_problem(503, "not_ready").json();
    let fault = readiness["checks"]["redis"].as_str().unwrap_or_default();
    assert!(fault.starts_with("asks for a password"), "{readiness}");
    set("requirepass", "").await;
    assert_recovered(&app, &fixture, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_accepts_no_reservation_until_it_is_promoted() {
    let (app, proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    let temp_dir = TempDir::new().expect("a directory");
    let (port, master) = (ports::pick_unused().expect("a port"), app.with_redis(|redis| redis.port()).to_string());
    let replica = Redis::start_with(temp_dir.path(), port, None, &["--replicaof", "127.0.0.1", &master]);
    let mut replica = replica.expect("redis-server");
    let client = redis::Client::open(replica.url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("the replica");
    eventually("the replica to have everything", async || {
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await.expect("INFO");
        let order =
            format!("{{{}}}:order:{}", fixture.activity.id, fixture.order_no.rsplit('.').next().expect("a ULID"));
        let has: bool = redis::cmd("EXISTS").arg(order).query_async(&mut connection).await.expect("EXISTS");
        if info.contains("master_link_status:up") && has { Ok(()) } else { Err(info) }
    })
    .await;

    proxy.retarget(port);
    assert_unavailable(&app, &fixture, &["reserve", "ready"]).await;
    request_route(&app, &fixture, "status").await.is(200);
    // Failover: the old master is killed and the replica is promoted.
    app.with_redis(|redis| redis.kill());
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).query_async::<()>(&mut connection).await.expect("promoted");
    let order_no = eventually_is("reservations to work again", 202, async || {
        app.reserve(&fixture.activity, &fixture.second_buyer, "a", 1).await
    })
    .await
    .text("order_no");
    app.sweep_until_written(&order_no, &fixture.second_buyer.ticket).await;
    let audit = app.audit(&fixture.activity.id).await;
    assert_eq!((&audit["ok"], &audit["drift"]), (&json!(true), &json!(0)), "{audit}");
    replica.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_redis_is_rebuilt_with_a_new_epoch() {
    let (app, _proxy) = start_behind_proxy();
    let fixture = create_fixture(&app).await;
    // This accepted order is only in the stream, and is lost with it. Its buyer retries below.
    let lost = app.reserve(&fixture.activity, &fixture.second_buyer, "a", 1).await.is(202).text("order_no");
    let mut redis = app.connect_redis().await;
    redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await.expect("flushed");
    assert_unavailable(&app, &fixture, &["reserve", "ticket", "challenge", "gate", "gate script", "info"]).await;
    let list = app.http.get("/api/activities", "").await.is(200);
    assert!(list.body.contains(&fixture.activity.id), "{list:?}");
    // Unknown ids are still 404, not 503: an activity that never existed, and the lost order.
    app.http.get("/api/activities/no-such-sale/gate.json", "").await.is_problem(404, "not_found");
    app.get_order(&lost, &fixture.second_buyer.ticket).await.is_problem(404, "not_found");
    let path = format!("/activities/{}", fixture.activity.id);
    let rebuilt = app.call_admin(Method::POST, &format!("{path}/rebuild"), &Value::Null).await.is(200).json();
    assert_eq!(rebuilt, json!({"outcome": "done", "orders": 1, "epoch": 2}));
    assert_recovered(&app, &fixture, [8, 2, 0]).await;
    let replayed = app.reserve(&fixture.activity, &fixture.second_buyer, "a", 1).await.is(202).text("order_no");
    assert_eq!(replayed, lost, "a retry with the same ticket returned another order number");
    // An open activity cannot be rebuilt. A caller that continues a rebuild hears that it is done.
    app.call_admin(Method::POST, &format!("{path}/rebuild"), &Value::Null).await.is_problem(409, "state_conflict");
    let continued = app.call_admin(Method::POST, &format!("{path}/rebuild?epoch=2"), &Value::Null).await.is(200).json();
    assert_eq!(continued, rebuilt);
    let unreadable = format!("{path}/rebuild?epoch=two");
    app.call_admin(Method::POST, &unreadable, &Value::Null).await.is_problem(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_of_an_ended_activity_returns_410_from_an_emptied_redis() {
    let (app, _proxy) = start_behind_proxy();
    let activity = app.create_activity(json!({})).await;
    app.call_admin(Method::POST, &format!("/activities/{}/close", activity.id), &Value::Null).await.is(200);
    let mut redis = app.connect_redis().await;
    redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await.expect("flushed");
    eventually("the sale to have ended", async || {
        let gate = app.http.get(&format!("/api/activities/{}/gate.json", activity.id), "").await;
        if gate.status == 410 { Ok(gate.is_problem(410, "ended")) } else { Err(gate.body) }
    })
    .await;
}
