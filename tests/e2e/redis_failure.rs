//! A Redis that is unreachable, slow, restarted, full, read-only, empty, or another one: every route says so with `503`
//! and `Retry-After`, within seconds and never wrongly, and works again by itself (D8, G5; I1, I4, I7).

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use dev::{manifest::Manifest, ports, proxy::Proxy, redis::Redis, scratch::Scratch, throwaway::Throwaway};
use futures::future::join_all;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use support::{Answer, Buyer, Sale, TestApp, activity::units, eventually};

/// How long an answer may take while Redis is in trouble.
const PATIENCE: Duration = Duration::from_secs(12);

/// An app without the Redis trigger, which would take the process along, before whose Redis stands a proxy.
fn behind_a_proxy() -> (TestApp, Arc<OnceLock<Proxy>>) {
    let proxy = Arc::new(OnceLock::new());
    let placed = Arc::clone(&proxy);
    let app = TestApp::started(Throwaway::start_with(&[], move |settings| {
        settings.components = Manifest::read(&settings.root).expect("a manifest").components_of("http");
        let variables = &mut settings.variables;
        let port = variables.get("redis_url").rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let proxy = Proxy::before(port.expect("a port")).expect("a proxy");
        variables.set_redis(&format!("redis://127.0.0.1:{}", proxy.port())).expect("a URL");
        assert!(placed.set(proxy).is_ok());
    }));
    (app, proxy)
}

/// What a sale has when trouble comes: an order in the ledger, and a buyer who has yet to order.
struct Scene {
    sale: Sale,
    winner: Buyer,
    order_no: String,
    next: Buyer,
}

async fn scene(app: &TestApp) -> Scene {
    let sale = app.sale(json!({"skus": units(10)})).await;
    let (winner, next) = (app.buyer(&sale, "winner").await, app.buyer(&sale, "next").await);
    let order_no = app.reserve(&sale, &winner, "a", 1).await.is(202).text("order_no");
    eventually("the order to be written", async || {
        app.sweep().await;
        let order = app.status(&order_no, &winner.ticket).await;
        if order.text("status") == "pending_payment" { Ok(()) } else { Err(order.body) }
    })
    .await;
    Scene { sale, winner, order_no, next }
}

/// One request to a route that cannot do without Redis.
async fn ask(app: &TestApp, scene: &Scene, route: &str) -> Answer {
    let Scene { sale, winner, order_no, next } = scene;
    let begun = Instant::now();
    let answer = match route {
        "reserve" => app.reserve(sale, next, "a", 1).await,
        "status" => app.status(order_no, &winner.ticket).await,
        "ticket" => app.ticket(&sale.id, &next.jwt).await,
        "challenge" => app.http.post(&format!("/api/activities/{}/challenge", sale.id), &next.jwt, &json!({})).await,
        "gate script" => app.http.get(&format!("/api/activities/{}/gate.js", sale.id), "").await,
        "gate" => app.http.get(&format!("/api/activities/{}/gate.json", sale.id), "").await,
        "info" => app.http.get(&format!("/api/activities/{}", sale.id), "").await,
        "checkout" => app.checkout(order_no, &winner.jwt).await,
        "cancel" => app.cancel(order_no, &winner.jwt).await,
        "refund" => app.refund(order_no, &winner.jwt).await,
        "sweep" => app.http.post("/api/tasks/sweep", app.variables.get("cron_token"), &Value::Null).await,
        "stats" => app.admin(Method::GET, &format!("/activities/{}/stats", sale.id), &Value::Null).await,
        "audit" => app.admin(Method::GET, &format!("/activities/{}/audit", sale.id), &Value::Null).await,
        "ready" => app.http.get("/readyz", "").await,
        other => panic!("no route {other}"),
    };
    let took = begun.elapsed();
    assert!(took < PATIENCE, "{route} took {took:?}: {answer:?}");
    answer
}

const ALL: [&str; 11] =
    ["reserve", "status", "ticket", "gate", "checkout", "cancel", "refund", "sweep", "stats", "audit", "ready"];

/// Every one of the routes answers `503` as soon as its memory of a second is over; what needs no Redis goes on.
async fn all_say_so(app: &TestApp, scene: &Scene, routes: &[&str]) {
    let said = routes.iter().map(async |route| {
        eventually(&format!("{route} to say that Redis is in trouble"), async || {
            let answer = ask(app, scene, route).await;
            assert!(matches!(answer.status, 200 | 201 | 409 | 503), "{route}: {answer:?}");
            if answer.status == 503 { Ok(answer.is_problem(503, "not_ready")) } else { Err(answer.body) }
        })
        .await;
    });
    join_all(said).await;
    app.http.get("/healthz", "").await.is(200);
    app.http.get("/", "").await.is(200);
}

/// It works again by itself: the order of before is there, the buyer who waited has one now, and the books agree.
async fn all_is_well(app: &TestApp, scene: &Scene, expected: [i64; 3]) {
    eventually("the app to be ready", async || {
        let answer = ask(app, scene, "ready").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    let order_no = eventually("reservations to work again", async || {
        let answer = app.reserve(&scene.sale, &scene.next, "a", 1).await;
        if answer.status == 202 { Ok(answer.text("order_no")) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(app.settled(&scene.sale).await, expected);
    app.wait_for(&order_no, &scene.next.ticket, "pending_payment").await;
    let before = app.status(&scene.order_no, &scene.winner.ticket).await.is(200);
    assert_eq!(before.text("status"), "pending_payment", "{before:?}");
    for route in ALL.into_iter().chain(["info"]) {
        let status = ask(app, scene, route).await.status;
        // Cancelling and refunding come last: the order is cancelled by now.
        assert!(matches!(status, 200..=202 | 409), "{route}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_redis_is_said_and_survived() {
    let (app, proxy) = behind_a_proxy();
    let proxy = proxy.get().expect("a proxy");
    let scene = scene(&app).await;
    for _ in 0..2 {
        proxy.cut();
        all_say_so(&app, &scene, &ALL).await;
        // Who watches over it reads what the ledger says.
        let metrics = app.http.get("/metrics", "").await.is(200);
        for line in
            ["stampede_store_up{store=\"redis\"} 0", "stampede_store_up{store=\"ledger\"} 1", "stampede_refunds_open "]
        {
            assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
        }
        proxy.mend();
        eventually("the order to be seen again", async || {
            let answer = ask(&app, &scene, "status").await;
            if answer.status == 200 { Ok(()) } else { Err(answer.body) }
        })
        .await;
    }
    all_is_well(&app, &scene, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_shown_without_its_stock_while_redis_is_away() {
    let (app, proxy) = behind_a_proxy();
    let proxy = proxy.get().expect("a proxy");
    let sale = app.sale(json!({"title": "Spring", "skus": units(10)})).await;
    let path = format!("/api/activities/{}", sale.id);
    let shown = async |what: &str, left: Value| {
        eventually(what, async || {
            let info = app.http.get(&path, "").await.is(200).json();
            assert_eq!((&info["title"], &info["phase"]), (&json!("Spring"), &json!("open")), "{info}");
            let sku = &info["skus"][0];
            assert_eq!((&sku["total"], sku["as_of"].is_null()), (&json!(10), sku["left"].is_null()), "{info}");
            if sku["left"] == left { Ok(()) } else { Err(info.to_string()) }
        })
        .await;
    };
    shown("the stock", json!(10)).await;
    proxy.cut();
    shown("nobody to know the stock", Value::Null).await;
    app.http.get("/api/activities/no-such-sale", "").await.is_problem(503, "not_ready");
    proxy.mend();
    shown("the stock again", json!(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_redis_is_said_in_time_and_a_reservation_that_was_unknown_is_one_order() {
    let (app, proxy) = behind_a_proxy();
    let proxy = proxy.get().expect("a proxy");
    let scene = scene(&app).await;
    // Longer than anybody waits, also where those who wait are late.
    proxy.delay(Duration::from_secs(5));
    all_say_so(&app, &scene, &ALL).await;
    // The same ticket, again and again, while nobody knows what became of it.
    let tries = join_all((0..8).map(|_| ask(&app, &scene, "reserve"))).await;
    assert!(tries.iter().all(|answer| matches!(answer.status, 202 | 503)), "{tries:?}");
    // Two seconds are hardly longer than anybody waits: where a machine is late, some hear how it is.
    proxy.delay(Duration::from_secs(2));
    let routes = ALL.into_iter().filter(|route| *route != "cancel");
    let told: Vec<_> = join_all(routes.map(|route| ask(&app, &scene, route))).await;
    assert!(told.iter().all(|answer| matches!(answer.status, 200..=202 | 409 | 503)), "{told:?}");
    assert!(told.iter().any(|answer| answer.status == 503), "{told:?}");
    proxy.delay(Duration::ZERO);
    all_is_well(&app, &scene, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_redis_holds_nobody_up() {
    let (app, _proxy) = behind_a_proxy();
    let scene = scene(&app).await;
    app.with_redis(|redis| redis.process().signal(Signal::SIGSTOP));
    all_say_so(&app, &scene, &ALL).await;
    app.with_redis(|redis| redis.process().signal(Signal::SIGCONT));
    all_is_well(&app, &scene, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_redis_has_everything_and_the_app_finds_it() {
    let (app, _proxy) = behind_a_proxy();
    let scene = scene(&app).await;
    let waiting = app.buyers(&scene.sale, 3).await;
    for buyer in &waiting {
        app.reserve(&scene.sale, buyer, "a", 1).await.is(202);
    }
    app.with_redis(|redis| redis.kill());
    all_say_so(&app, &scene, &ALL).await;
    app.with_redis(|redis| redis.restart()).expect("redis-server");
    all_is_well(&app, &scene, [5, 5, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_no_order_and_shows_those_it_has() {
    let (app, _proxy) = behind_a_proxy();
    let scene = scene(&app).await;
    let mut redis = app.redis().await;
    let mut limit = async |bytes: &str| {
        redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).query_async::<()>(&mut redis).await.expect("set");
    };
    limit("1mb").await;
    all_say_so(&app, &scene, &["reserve", "ready"]).await;
    let said = ask(&app, &scene, "ready").await.is_problem(503, "not_ready").json();
    assert!(said["checks"]["redis"].as_str().is_some_and(|redis| redis.starts_with("is full")), "{said}");
    ask(&app, &scene, "status").await.is(200);
    ask(&app, &scene, "gate").await.is(200);
    limit("0").await;
    all_is_well(&app, &scene, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lacks_replicas_or_wants_a_password_is_said_and_survived() {
    let (app, proxy) = behind_a_proxy();
    let proxy = proxy.get().expect("a proxy");
    let scene = scene(&app).await;
    // Not through the proxy.
    let client = redis::Client::open(app.with_redis(|redis| redis.url())).expect("a URL");
    let mut redis = client.get_multiplexed_async_connection().await.expect("Redis");
    let mut set = async |name: &str, value: &str| {
        redis::cmd("CONFIG").arg(&["SET", name, value]).query_async::<()>(&mut redis).await.expect("set");
    };
    set("min-replicas-to-write", "1").await;
    all_say_so(&app, &scene, &["reserve"]).await;
    set("min-replicas-to-write", "0").await;
    // Who is connected stays; those who come have to sign in.
    set("requirepass", "secret").await;
    proxy.cut();
    proxy.mend();
    all_say_so(&app, &scene, &ALL).await;
    let said = ask(&app, &scene, "ready").await.is_problem(503, "not_ready").json();
    assert!(said["checks"]["redis"].as_str().is_some_and(|redis| redis.starts_with("asks for a password")), "{said}");
    set("requirepass", "").await;
    all_is_well(&app, &scene, [8, 2, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_no_order_until_it_is_the_master() {
    let (app, proxy) = behind_a_proxy();
    let proxy = proxy.get().expect("a proxy");
    let scene = scene(&app).await;
    let scratch = Scratch::new().expect("a directory");
    let (port, master) = (ports::free().expect("a port"), app.with_redis(|redis| redis.port()).to_string());
    let replica = Redis::start_with(scratch.path(), port, None, &["--replicaof", "127.0.0.1", &master]);
    let mut replica = replica.expect("redis-server");
    let client = redis::Client::open(replica.url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("the replica");
    eventually("the replica to have everything", async || {
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await.expect("INFO");
        let order = format!("{{{}}}:order:{}", scene.sale.id, scene.order_no.rsplit('.').next().expect("a ULID"));
        let has: bool = redis::cmd("EXISTS").arg(order).query_async(&mut connection).await.expect("EXISTS");
        if info.contains("master_link_status:up") && has { Ok(()) } else { Err(info) }
    })
    .await;

    proxy.point_to(port);
    all_say_so(&app, &scene, &["reserve", "ready"]).await;
    ask(&app, &scene, "status").await.is(200);
    // Failed over: the old master is gone, the replica is told.
    app.with_redis(|redis| redis.kill());
    redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).query_async::<()>(&mut connection).await.expect("promoted");
    let order_no = eventually("reservations to work again", async || {
        let answer = app.reserve(&scene.sale, &scene.next, "a", 1).await;
        if answer.status == 202 { Ok(answer.text("order_no")) } else { Err(answer.body) }
    })
    .await;
    eventually("the order to be written", async || {
        app.sweep().await;
        let order = app.status(&order_no, &scene.next.ticket).await;
        if order.text("status") == "pending_payment" { Ok(()) } else { Err(order.body) }
    })
    .await;
    let audit = app.audit(&scene.sale.id).await;
    assert_eq!((&audit["ok"], &audit["drift"]), (&json!(true), &json!(0)), "{audit}");
    replica.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lost_everything_is_rebuilt_and_begins_a_new_epoch() {
    let (app, _proxy) = behind_a_proxy();
    let scene = scene(&app).await;
    // This one was told 202, and is in the stream alone: it is lost with it, and its buyer asks again.
    let lost = app.reserve(&scene.sale, &scene.next, "a", 1).await.is(202).text("order_no");
    let mut redis = app.redis().await;
    redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await.expect("flushed");
    all_say_so(&app, &scene, &["reserve", "ticket", "challenge", "gate", "gate script", "info"]).await;
    let list = app.http.get("/api/activities", "").await.is(200);
    assert!(list.body.contains(&scene.sale.id), "{list:?}");
    // What never was is still not there, and what has ended needs nobody to come back.
    app.http.get("/api/activities/no-such-sale/gate.json", "").await.is_problem(404, "not_found");
    app.status(&lost, &scene.next.ticket).await.is_problem(404, "not_found");
    let path = format!("/activities/{}", scene.sale.id);
    let rebuilt = app.admin(Method::POST, &format!("{path}/rebuild"), &Value::Null).await.is(200).json();
    assert_eq!(rebuilt, json!({"outcome": "done", "orders": 1, "epoch": 2}));
    all_is_well(&app, &scene, [8, 2, 0]).await;
    let again = app.reserve(&scene.sale, &scene.next, "a", 1).await.is(202).text("order_no");
    assert_eq!(again, lost, "the same ticket, the same number");
    // While it sells it cannot be rebuilt.
    app.admin(Method::POST, &format!("{path}/rebuild"), &Value::Null).await.is_problem(409, "state_conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_has_ended_needs_no_gate_to_say_so() {
    let (app, _proxy) = behind_a_proxy();
    let sale = app.sale(json!({})).await;
    app.admin(Method::POST, &format!("/activities/{}/close", sale.id), &Value::Null).await.is(200);
    let mut redis = app.redis().await;
    redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await.expect("flushed");
    eventually("the sale to have ended", async || {
        let gate = app.http.get(&format!("/api/activities/{}/gate.json", sale.id), "").await;
        if gate.status == 410 { Ok(gate.is_problem(410, "ended")) } else { Err(gate.body) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_of_a_later_version_is_not_ready() {
    let app = TestApp::own();
    if app.variables.get("ledger") != "sqlite" {
        return;
    }
    let ledger = rusqlite::Connection::open(app.ledger_file()).expect("the ledger");
    ledger.busy_timeout(Duration::from_secs(10)).expect("patience");
    ledger.execute("INSERT INTO schema_versions (version) VALUES (9999)", []).expect("a row");
    let said = app.http.get("/readyz", "").await.is_problem(503, "not_ready");
    assert!(said.body.contains("the schema is version 9999, this app needs"), "{said:?}");
    ledger.execute("DELETE FROM schema_versions WHERE version = 9999", []).expect("a row");
    app.http.get("/readyz", "").await.is(200);
}
