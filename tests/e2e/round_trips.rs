//! Counts Redis commands: at most one per reservation, none for refusals from instance memory (A4, C6, C8, D7, F1).

use std::time::Duration;

use futures::{
    StreamExt,
    future::{join, join_all},
    stream,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Buyer, TestActivity, TestApp, activity::single_sku};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;

/// Records the commands that clients send to Redis, with `MONITOR`. Commands inside a script are not counted.
struct RedisMonitor {
    commands: JoinHandle<Vec<String>>,
    end_marker: String,
    redis: redis::aio::MultiplexedConnection,
}

impl RedisMonitor {
    async fn start(app: &TestApp) -> Self {
        let client = redis::Client::open(app.variables.get("redis_url")).expect("a URL");
        let monitor = client.get_async_monitor().await.expect("MONITOR");
        let mut redis = app.connect_redis().await;
        let (begin_marker, end_marker) = ("watch begins".to_owned(), "watch ends".to_owned());
        let _: String = redis::cmd("ECHO").arg(&begin_marker).query_async(&mut redis).await.expect("ECHO");
        let stop_at = end_marker.clone();
        let commands = tokio::spawn(async move {
            let stream = monitor.into_on_message::<String>();
            let after = stream.skip_while(move |line| std::future::ready(!line.contains(&begin_marker))).skip(1);
            after.take_while(move |line| std::future::ready(!line.contains(&stop_at))).collect().await
        });
        Self { commands, end_marker, redis }
    }

    /// Returns the commands since the start, without those inside scripts, the handshakes of new connections, and what
    /// instances hand over of their counts.
    async fn stop(mut self) -> Vec<String> {
        let _: String = redis::cmd("ECHO").arg(&self.end_marker).query_async(&mut self.redis).await.expect("ECHO");
        let commands = self.commands.await.expect("lines");
        let not_counted =
            [" lua] ", "\"stampede:counts\"", "\"CLIENT\"", "\"HELLO\"", "\"SELECT\"", "\"AUTH\"", "\"INFO\""];
        let is_counted = |line: &String| !not_counted.iter().any(|text| line.contains(text));
        commands.into_iter().filter(is_counted).collect()
    }
}

/// Starts an app whose order writer is stopped, so that only requests send commands to Redis.
fn start_with_paused_writer() -> TestApp {
    let app = TestApp::dedicated();
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_and_a_poll_cost_one_redis_command_each() {
    let app = start_with_paused_writer();
    let activity = app.create_activity(json!({"skus": single_sku(500)})).await;
    let buyers = app.create_buyers(&activity, 200).await;
    // The first reservation loads the script.
    app.reserve(&activity, &buyers[0], "a", 1).await.is(202);

    let monitor = RedisMonitor::start(&app).await;
    let mut orders = vec![];
    for buyer in &buyers[1..] {
        orders.push(app.reserve(&activity, buyer, "a", 1).await.is(202).text("order_no"));
    }
    let commands = monitor.stop().await;
    assert_eq!(commands.len(), 199, "{:#?}", &commands[..commands.len().min(12)]);

    app.get_order(&orders[0], &buyers[1].ticket).await.is(200);
    let monitor = RedisMonitor::start(&app).await;
    for (order_no, buyer) in orders.iter().zip(&buyers[1..]) {
        app.get_order(order_no, &buyer.ticket).await.is(200);
    }
    let commands = monitor.stop().await;
    assert_eq!(commands.len(), 199, "{:#?}", &commands[..commands.len().min(12)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_alone_says_that_there_is_no_order_yet_and_the_last_look_asks_the_ledger() {
    let app = TestApp::dedicated();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let look = async |last: &str| app.http.get(&format!("/api/orders/{order_no}?last={last}"), &buyer.ticket).await;
    // Only the ledger has the order now.
    let mut redis = app.connect_redis().await;
    let prefix = format!("{{{}}}:", activity.id);
    let record = format!("{prefix}order:{}", order_no.rsplit('.').next().expect("a ULID"));
    redis::cmd("DEL").arg(record).query_async::<()>(&mut redis).await.expect("deleted");
    look("false").await.is_problem(404, "not_found");
    look("true").await.is(200);
    look("yes").await.is_problem(400, "invalid_request").points_at("?last");

    let start = std::time::Instant::now();
    let monitor = RedisMonitor::start(&app).await;
    for _ in 0..1_000 {
        app.get_order(&order_no, &buyer.ticket).await.is_problem(404, "not_found");
    }
    let (commands, periods) = (monitor.stop().await, start.elapsed().as_millis() as usize / 900 + 1);
    // Up to 16 instances live at the same time, and each asks again after 0.9 s.
    assert!(commands.len() <= 16 * (periods + 1), "{} of 1,000 polls reached Redis", commands.len());

    // While Redis is being restored it does not know.
    let mut restoring = redis::cmd("HSET");
    restoring.arg(format!("{prefix}gate")).arg(&["restoring", "1"]);
    restoring.query_async::<()>(&mut redis).await.expect("set");
    support::eventually_is("the ledger to be asked", 200, async || app.get_order(&order_no, &buyer.ticket).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_invalid_tickets_do_not_reach_redis() {
    let app = start_with_paused_writer();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let forged = Buyer { ticket: buyer.ticket.replace(".0.", ".9."), ..buyer.clone() };
    let monitor = RedisMonitor::start(&app).await;
    let requests = stream::iter(0..10_000).map(|_| app.reserve(&activity, &forged, "a", 1));
    let refused =
        requests.buffer_unordered(16).map(|response| response.is_problem(401, "ticket_invalid")).count().await;
    assert_eq!(refused, 10_000);
    let commands = monitor.stop().await;
    assert!(commands.is_empty(), "{} commands: {:#?}", commands.len(), &commands[..commands.len().min(12)]);
    // A valid ticket from the same address is still accepted.
    app.reserve(&activity, &buyer, "a", 1).await.is(202);
}

/// Sends ten thousand reservations, sixteen at a time; all must be refused with this status and code, and almost all
/// from instance memory.
async fn assert_refusals_from_memory(
    app: &TestApp,
    activity: &TestActivity,
    buyers: &[Buyer],
    status: u16,
    code: &str,
) {
    let start = std::time::Instant::now();
    let monitor = RedisMonitor::start(app).await;
    let requests = stream::iter(0..10_000).map(|index| app.reserve(activity, &buyers[index % buyers.len()], "a", 1));
    let refused = requests.buffer_unordered(16).map(|response| response.is_problem(status, code)).count().await;
    assert_eq!(refused, 10_000);
    let (commands, periods) = (monitor.stop().await, start.elapsed().as_millis() as usize / 900 + 1);
    // An instance serves 8,192 requests, and reads Redis once and then every 0.9 s; up to 16 live at the same time.
    let allowed = 10_000 / 8_192 + 1 + 16 * (periods + 1);
    assert!(commands.len() <= allowed, "{} of 10,000 {code} reached Redis; {allowed} are fine", commands.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_start_key_and_sold_out_reach_redis_at_most_once_per_second_and_instance() {
    let app = start_with_paused_writer();
    let activity = app.create_activity(json!({"skus": single_sku(1)})).await;
    let buyers = app.create_buyers(&activity, 50).await;
    let wrong_key = TestActivity { start_key: "guess".to_owned(), ..activity.clone() };
    assert_refusals_from_memory(&app, &wrong_key, &buyers, 403, "start_key_invalid").await;
    app.reserve(&activity, &buyers[0], "a", 1).await.is(202);
    assert_refusals_from_memory(&app, &activity, &buyers[1..], 409, "sold_out").await;
}

/// Number of refusals with `code` that the statistics have.
async fn counted(app: &TestApp, activity: &TestActivity, code: &str) -> usize {
    app.stats(&activity.id).await["refusals"][code].as_u64().unwrap_or_default() as usize
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_from_memory_are_counted_about_a_second_later() {
    let app = start_with_paused_writer();
    let activity = app.create_activity(json!({"skus": single_sku(1)})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let wrong_key = TestActivity { start_key: "guess".to_owned(), ..activity.clone() };
    let monitor = RedisMonitor::start(&app).await;
    for _ in 0..150 {
        app.reserve(&wrong_key, &buyer, "a", 1).await.is_problem(403, "start_key_invalid");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (calls, refusals) = (monitor.stop().await.len(), counted(&app, &activity, "start_key_invalid").await);
    // Those of the last second may be missing: at most fifty.
    assert!(calls < 50 && (100..=150).contains(&refusals), "{refusals} of 150 are counted, {calls} called Redis");

    let (forged_token, forged_ticket) = (format!("{}x", buyer.jwt), format!("{}x", buyer.ticket));
    let forger = Buyer { ticket: forged_ticket, ..buyer.clone() };
    let checked = app.create_activity(json!({"human_check": "pow"})).await;
    for (activity, code) in
        [(&activity, "unauthenticated"), (&activity, "ticket_invalid"), (&checked, "human_check_required")]
    {
        support::eventually(&format!("{code} to be counted"), async || {
            // The second request reports the first.
            let refused = match code {
                "unauthenticated" => app.request_ticket(&activity.id, &forged_token).await,
                "ticket_invalid" => app.reserve(activity, &forger, "a", 1).await,
                _ => app.request_ticket(&activity.id, &buyer.jwt).await,
            };
            assert_eq!(refused.code(), code);
            match code {
                "ticket_invalid" => app.reserve(activity, &buyer, "a", 1).await.is(202),
                "unauthenticated" => app.request_ticket(&activity.id, &buyer.jwt).await.is(201),
                _ => app.request_ticket(&activity.id, &buyer.jwt).await.is(403),
            };
            match counted(&app, activity, code).await {
                0 => Err("none"),
                _ => Ok(()),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_reads_of_an_activity_are_served_from_memory() {
    let app = start_with_paused_writer();
    let activity = app.create_activity(json!({})).await;
    for path in [format!("/api/activities/{}/gate.json", activity.id), format!("/api/activities/{}", activity.id)] {
        app.http.get(&path, "").await.is(200);
        let start = std::time::Instant::now();
        let monitor = RedisMonitor::start(&app).await;
        for _ in 0..1_000 {
            app.http.get(&path, "").await.is(200);
        }
        let (commands, seconds) = (monitor.stop().await, start.elapsed().as_secs() as usize + 1);
        let allowed = 2 * (1_000 / 128 + 1) + 2 * seconds;
        assert!(
            commands.len() <= allowed,
            "{} of 1,000 reached Redis; {allowed} are fine: {:#?}",
            commands.len(),
            &commands[..3]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_audits_that_meet_a_slow_one_share_the_next() {
    let (postgres, app) = TestApp::on_postgres();
    let activity = app.create_activity(json!({})).await;
    app.audit(&activity.id).await;
    let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.expect("the ledger");
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let monitor = RedisMonitor::start(&app).await;
    let unlock = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.batch_execute("COMMIT").await.expect("no lock");
    };
    let (audits, ()) = join(join_all((0..50).map(|_| app.audit(&activity.id))), unlock).await;
    for audit in audits {
        assert_eq!(audit["ok"], true, "{audit}");
    }
    // Each audit reads the counters in Redis once.
    let counters = format!("{{{}}}:stats", activity.id);
    let computed = monitor.stop().await.iter().filter(|command| command.contains(&counters)).count();
    assert!((1..=20).contains(&computed), "{computed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_reads_the_counters_of_an_activity_once() {
    let app = start_with_paused_writer();
    let activity = app.create_activity(json!({"skus": single_sku(10)})).await;
    let monitor = RedisMonitor::start(&app).await;
    let text = app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200).body;
    assert!(text.contains(&format!("stampede_audit_ok{{activity=\"{}\"}} 1", activity.id)), "{text}");
    let commands = monitor.stop().await;
    let gate = format!("{{{}}}:gate", activity.id);
    let reads = commands.iter().filter(|command| command.contains(&gate) && command.contains("EVAL")).count();
    // A script that Redis has not loaded yet is sent twice.
    let loads = commands.iter().filter(|command| command.contains(&gate) && command.contains("\"EVAL\"")).count();
    assert_eq!(reads - loads, 1, "{commands:?}");
}

/// Calls out of the functions since the start of the engine: ledger, Redis, key-value, HTTP. `None` on Spin, which does not
/// count them.
async fn count_calls(app: &TestApp) -> Option<[usize; 4]> {
    let url = format!("http://127.0.0.1:{}/.well-known/spin/calls", app.port());
    let answer = reqwest::get(url).await.expect("an answer").text().await.expect("a text");
    let calls: Value = serde_json::from_str(&answer).ok()?;
    Some(["ledger", "redis", "key_value", "http"].map(|name| calls[name].as_u64().expect(name) as usize))
}

/// Requests of each route that are counted. An instance that starts meanwhile, or a busy SQLite, adds a few calls.
const COUNTED: usize = 20;

/// Asserts that each request makes these calls, after its answer included.
async fn assert_calls(app: &TestApp, route: &str, expected: [usize; 4], request: impl AsyncFn(usize)) {
    // The instances of earlier requests, whose caches are stale now, end after a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    request(0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = count_calls(app).await.expect("calls");
    for number in 1..=COUNTED {
        request(number).await;
    }
    let made = support::eventually(route, async || {
        let now = count_calls(app).await.expect("calls");
        let made: Vec<_> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        let all_made = made.iter().zip(expected).all(|(made, expected)| *made >= expected * COUNTED);
        if all_made { Ok(made) } else { Err(format!("{made:?} of {COUNTED} × {expected:?}")) }
    });
    let made = made.await;
    println!("{route}: {made:?} calls in {COUNTED} requests");
    for (made, expected) in made.into_iter().zip(expected) {
        assert!(
            made < (expected + 1) * COUNTED - 2,
            "{route}: {made} calls, {expected} for each of {COUNTED} are fine"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_makes_so_many_calls_to_ledger_redis_key_value_and_others() {
    let app = TestApp::dedicated();
    if count_calls(&app).await.is_none() {
        return println!("this engine does not count calls");
    }
    let activity = app.create_activity(json!({"skus": single_sku(500)})).await;
    let buyers = app.create_buyers(&activity, 2 * COUNTED + 2).await;
    let path = format!("/api/activities/{}", activity.id);
    assert_calls(&app, "activity info", [0, 0, 0, 0], async |_| drop(app.http.get(&path, "").await.is(200))).await;
    let gate = format!("{path}/gate.json");
    assert_calls(&app, "gate.json", [0, 0, 0, 0], async |_| drop(app.http.get(&gate, "").await.is(200))).await;
    let ticket = async |number: usize| drop(app.request_ticket(&activity.id, &buyers[number].jwt).await.is(201));
    assert_calls(&app, "ticket", [0, 1, 0, 0], ticket).await;
    let reserve = async |number: usize| drop(app.reserve(&activity, &buyers[number], "a", 1).await.is(202));
    assert_calls(&app, "reserve", [0, 1, 0, 0], reserve).await;
    for buyer in &buyers[COUNTED + 1..] {
        app.reserve(&activity, buyer, "a", 1).await.is(202);
    }
    for buyer in &buyers {
        app.wait_for_status(&buyer.order_no(), &buyer.ticket, "pending_payment").await;
    }
    let status =
        async |number: usize| drop(app.get_order(&buyers[number].order_no(), &buyers[number].ticket).await.is(200));
    assert_calls(&app, "order status", [0, 1, 0, 0], status).await;
    let list = async |number: usize| drop(app.http.get("/api/orders", &buyers[COUNTED + 1 + number].jwt).await.is(200));
    assert_calls(&app, "my orders", [1, 1, 0, 0], list).await;
    let checkout =
        async |number: usize| drop(app.checkout(&buyers[number].order_no(), &buyers[number].jwt).await.is(200));
    assert_calls(&app, "checkout", [3, 1, 0, 1], checkout).await;
    let callback = async |number: usize| {
        let order_no = buyers[number].order_no();
        let body = TestApp::callback_body("payment.succeeded", &order_no, &order_no);
        app.send_callback(&format!("evt-{number}"), &body).await.is(204);
    };
    assert_calls(&app, "payment callback", [2, 1, 0, 0], callback).await;
    let cancel = async |number: usize| {
        let buyer = &buyers[COUNTED + 1 + number];
        app.cancel(&buyer.order_no(), &buyer.jwt).await.is(200);
    };
    assert_calls(&app, "cancel", [2, 1, 0, 0], cancel).await;
}
