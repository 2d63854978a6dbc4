//! How often Redis is asked (design §9): at most once per reservation, not at all for what memory can refuse.

use futures::{StreamExt, stream};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::task::JoinHandle;

use support::{Buyer, Sale, TestApp, activity::units};

/// Every command that clients send to Redis while it watches. What a script calls is part of the script's round trip.
struct Watch {
    lines: JoinHandle<Vec<String>>,
    end: String,
    redis: redis::aio::MultiplexedConnection,
}

impl Watch {
    async fn start(app: &TestApp) -> Self {
        let client = redis::Client::open(app.variables.get("redis_url")).expect("a URL");
        let monitor = client.get_async_monitor().await.expect("MONITOR");
        let mut redis = app.redis().await;
        let (begin, end) = ("watch begins".to_owned(), "watch ends".to_owned());
        let _: String = redis::cmd("ECHO").arg(&begin).query_async(&mut redis).await.expect("ECHO");
        let last = end.clone();
        let lines = tokio::spawn(async move {
            let stream = monitor.into_on_message::<String>();
            let after = stream.skip_while(move |line| std::future::ready(!line.contains(&begin))).skip(1);
            after.take_while(move |line| std::future::ready(!line.contains(&last))).collect().await
        });
        Self { lines, end, redis }
    }

    /// What was sent since, without scripts' own calls and the greetings of new connections.
    async fn stop(mut self) -> Vec<String> {
        let _: String = redis::cmd("ECHO").arg(&self.end).query_async(&mut self.redis).await.expect("ECHO");
        let lines = self.lines.await.expect("lines");
        let greetings = ["\"CLIENT\"", "\"HELLO\"", "\"SELECT\"", "\"AUTH\"", "\"INFO\""];
        let counts =
            |line: &String| !line.contains(" lua] ") && !greetings.iter().any(|greeting| line.contains(greeting));
        lines.into_iter().filter(counts).collect()
    }
}

/// An app whose order writer is asleep: what remains on the wire is what the requests cause.
fn without_a_writer() -> TestApp {
    let app = TestApp::own();
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_asks_redis_once_and_so_does_a_poll() {
    let app = without_a_writer();
    let sale = app.sale(json!({"skus": units(500)})).await;
    let buyers = app.buyers(&sale, 200).await;
    // The first one loads the script.
    app.reserve(&sale, &buyers[0], "a", 1).await.is(202);

    let watch = Watch::start(&app).await;
    let mut orders = vec![];
    for buyer in &buyers[1..] {
        orders.push(app.reserve(&sale, buyer, "a", 1).await.is(202).text("order_no"));
    }
    let sent = watch.stop().await;
    assert_eq!(sent.len(), 199, "{:#?}", &sent[..sent.len().min(12)]);

    app.status(&orders[0], &buyers[1].ticket).await.is(200);
    let watch = Watch::start(&app).await;
    for (order_no, buyer) in orders.iter().zip(&buyers[1..]) {
        app.status(order_no, &buyer.ticket).await.is(200);
    }
    let sent = watch.stop().await;
    assert_eq!(sent.len(), 199, "{:#?}", &sent[..sent.len().min(12)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_bad_tickets_do_not_reach_redis() {
    let app = without_a_writer();
    let sale = app.sale(json!({})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let forged = Buyer { ticket: buyer.ticket.replace(".0.", ".9."), ..buyer.clone() };
    let watch = Watch::start(&app).await;
    let tries = stream::iter(0..10_000).map(|_| app.reserve(&sale, &forged, "a", 1));
    let refused = tries.buffer_unordered(16).map(|answer| answer.is_problem(401, "ticket_invalid")).count().await;
    assert_eq!(refused, 10_000);
    let sent = watch.stop().await;
    assert!(sent.is_empty(), "{} commands: {:#?}", sent.len(), &sent[..sent.len().min(12)]);
    // Who shares the address is served.
    app.reserve(&sale, &buyer, "a", 1).await.is(202);
}

/// Sends ten thousand reservations, sixteen at a time, that must all be refused so.
async fn ten_thousand_refusals(app: &TestApp, sale: &Sale, buyers: &[Buyer], status: u16, code: &str) {
    let start = std::time::Instant::now();
    let watch = Watch::start(app).await;
    let tries = stream::iter(0..10_000).map(|at| app.reserve(sale, &buyers[at % buyers.len()], "a", 1));
    let refused = tries.buffer_unordered(16).map(|answer| answer.is_problem(status, code)).count().await;
    assert_eq!(refused, 10_000);
    let (sent, seconds) = (watch.stop().await, start.elapsed().as_secs() as usize + 1);
    // An instance lives for 128 requests and looks once, and once more each second; some live at once.
    let allowed = 10_000 / 128 + 1 + 16 * (seconds + 1);
    assert!(sent.len() <= allowed, "{} of 10,000 {code} reached Redis; {allowed} are fine", sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_start_key_reaches_redis_once_a_second_and_instance_at_most() {
    let app = without_a_writer();
    let sale = app.sale(json!({"skus": units(1)})).await;
    let buyers = app.buyers(&sale, 50).await;
    let early = Sale { start_key: "guess".to_owned(), ..sale };
    ten_thousand_refusals(&app, &early, &buyers, 403, "start_key_invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sold_out_reaches_redis_once_a_second_and_instance_at_most() {
    let app = without_a_writer();
    let sale = app.sale(json!({"skus": units(1)})).await;
    let buyers = app.buyers(&sale, 50).await;
    app.reserve(&sale, &buyers[0], "a", 1).await.is(202);
    ten_thousand_refusals(&app, &sale, &buyers[1..], 409, "sold_out").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_readers_does_not_cost_a_call_each() {
    let app = without_a_writer();
    let sale = app.sale(json!({})).await;
    for path in [format!("/api/activities/{}/gate.json", sale.id), format!("/api/activities/{}", sale.id)] {
        app.http.get(&path, "").await.is(200);
        let start = std::time::Instant::now();
        let watch = Watch::start(&app).await;
        for _ in 0..1_000 {
            app.http.get(&path, "").await.is(200);
        }
        let (sent, seconds) = (watch.stop().await, start.elapsed().as_secs() as usize + 1);
        let allowed = 2 * (1_000 / 128 + 1) + 2 * seconds;
        assert!(sent.len() <= allowed, "{} of 1,000 reached Redis; {allowed} are fine: {:#?}", sent.len(), &sent[..3]);
    }
}
