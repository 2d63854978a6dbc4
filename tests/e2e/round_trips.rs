//! How often Redis is asked (design §9): at most once per reservation, not at all for what memory can refuse.

use futures::StreamExt;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{Buyer, TestApp, sale::units};

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
async fn a_bad_ticket_does_not_reach_redis() {
    let app = without_a_writer();
    let sale = app.sale(json!({})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let forged = Buyer { ticket: buyer.ticket.replace(".0.", ".9."), ..buyer.clone() };
    let watch = Watch::start(&app).await;
    for _ in 0..100 {
        app.reserve(&sale, &forged, "a", 1).await.is_problem(401, "ticket_invalid");
    }
    let sent = watch.stop().await;
    assert!(sent.is_empty(), "{sent:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_memory_can_refuse_reaches_redis_once_a_second_at_most() {
    let app = without_a_writer();
    let sale = app.sale(json!({"skus": units(1)})).await;
    let buyers = app.buyers(&sale, 50).await;
    app.reserve(&sale, &buyers[0], "a", 1).await.is(202);
    let start = std::time::Instant::now();
    let watch = Watch::start(&app).await;
    for round in 0..20 {
        for buyer in &buyers[1..] {
            app.reserve(&sale, buyer, "a", 1).await.is_problem(409, "sold_out");
            let early = crate::support::Sale { start_key: format!("guess-{round}"), ..sale.clone() };
            app.reserve(&early, buyer, "a", 1).await.is_problem(403, "start_key_invalid");
        }
    }
    let (sent, seconds) = (watch.stop().await, start.elapsed().as_secs() as usize + 1);
    // 1,960 requests. An instance lives for 128 of them and looks once, and once more each second; two at a time.
    let allowed = 2 * (1_960 / 128 + 1) + 2 * seconds;
    assert!(sent.len() <= allowed, "{} of 1,960 reached Redis; {allowed} are fine", sent.len());
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
