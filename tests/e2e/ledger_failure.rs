//! A ledger that says nothing: every route that needs it says so with `503` and `Retry-After`, within seconds, and works
//! again by itself (D8, G5; I4).

use std::time::{Duration, Instant};

use dev::postgres::Postgres;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use support::{Answer, Buyer, TestApp, activity::units, eventually};

/// How long an answer may take while the ledger is silent: a buyer's, an operator's or a job's.
const BUYERS: Duration = Duration::from_secs(12);
const JOBS: Duration = Duration::from_secs(25);

const ALL: [&str; 11] =
    ["list", "ticket", "checkout", "cancel", "refund", "orders", "webhook", "ready", "sales", "dead letters", "sweep"];

async fn ask(app: &TestApp, sale: &str, order_no: &str, buyer: &Buyer, route: &str) -> Answer {
    let begun = Instant::now();
    let answer = match route {
        "list" => app.http.get("/api/activities", "").await,
        "ticket" => app.ticket(sale, &buyer.jwt).await,
        "checkout" => app.checkout(order_no, &buyer.jwt).await,
        "cancel" => app.cancel(order_no, &buyer.jwt).await,
        "refund" => app.refund(order_no, &buyer.jwt).await,
        "orders" => app.http.get("/api/orders", &buyer.jwt).await,
        "webhook" => app.call_back("evt_silent", &TestApp::callback("payment.failed", order_no, "none")).await,
        "ready" => app.http.get("/readyz", "").await,
        "sales" => app.admin(Method::GET, "/activities", &Value::Null).await,
        "dead letters" => app.admin(Method::GET, "/dead-letters", &Value::Null).await,
        "sweep" => app.http.post("/api/tasks/sweep", app.variables.get("cron_token"), &Value::Null).await,
        other => panic!("no route {other}"),
    };
    let (took, patience) = (begun.elapsed(), if route == "sweep" { JOBS } else { BUYERS });
    assert!(took < patience, "{route} took {took:?}: {answer:?}");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_ledger_holds_nobody_up() {
    let postgres = Postgres::throwaway().expect("PostgreSQL");
    let app = TestApp::with(|variables| variables.set_ledger(&postgres.url()).expect("a URL"));
    let sale = app.sale(json!({"skus": units(10)})).await;
    let (winner, next) = (app.buyer(&sale, "winner").await, app.buyer(&sale, "next").await);
    let order_no = app.order(&sale, &winner).await;

    postgres.freeze();
    // First instances that have a connection, then those that must make one.
    for _ in 0..2 {
        let answers = join_all(ALL.map(|route| ask(&app, &sale.id, &order_no, &winner, route))).await;
        for (route, answer) in ALL.iter().zip(answers) {
            // The list is remembered for a second.
            if !(*route == "list" && answer.status == 200) {
                answer.is_problem(503, "not_ready");
            }
        }
    }
    // What needs no ledger goes on, and the order is kept until there is one.
    let waiting = app.reserve(&sale, &next, "a", 1).await.is(202).text("order_no");
    app.http.get("/healthz", "").await.is(200);
    app.http.get("/metrics", "").await.is(200);

    postgres.thaw();
    for route in ALL {
        eventually(&format!("{route} to work again"), async || {
            let answer = ask(&app, &sale.id, &order_no, &winner, route).await;
            if matches!(answer.status, 200..=204 | 409) { Ok(()) } else { Err(answer.body) }
        })
        .await;
    }
    eventually("the order to be written", async || {
        app.sweep().await;
        let order = app.status(&waiting, &next.ticket).await;
        if order.text("status") == "pending_payment" { Ok(()) } else { Err(order.body) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_sales_that_never_were_cost_the_ledger_next_to_nothing() {
    const TRANSACTIONS: &str = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    let postgres = Postgres::throwaway().expect("PostgreSQL");
    let app = TestApp::with(|variables| variables.set_ledger(&postgres.url()).expect("a URL"));
    let before = app.ledger_number(TRANSACTIONS).await;
    for round in 0..100 {
        let asked = (0..100).map(async |at| {
            app.http
                .get(&format!("/api/activities/nobody-{round}-{at}/gate.json"), "")
                .await
                .is_problem(404, "not_found")
        });
        join_all(asked).await;
    }
    // PostgreSQL counts what a connection did within a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = app.ledger_number(TRANSACTIONS).await;
    // Some of it may be older: what was done at the start counts up to ten seconds late.
    assert!(after - before < 500, "{before}, then {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_shown_as_it_was_described_while_the_ledger_is_silent() {
    let postgres = Postgres::throwaway().expect("PostgreSQL");
    let app = TestApp::with(|variables| variables.set_ledger(&postgres.url()).expect("a URL"));
    let sale = app.sale(json!({"skus": units(10)})).await;
    let info = async || app.http.get(&format!("/api/activities/{}", sale.id), "").await.is(200);
    info().await;
    postgres.freeze();
    // The copy that all instances read from is a minute old.
    let copies = rusqlite::Connection::open(app.ledger_file().with_file_name("key-value.db")).expect("the copies");
    copies.busy_timeout(Duration::from_secs(10)).expect("patience");
    let aged = "UPDATE spin_key_value SET value = CAST(json_set(CAST(value AS TEXT), '$.fresh_until', \
        '1970-01-01T00:00:00Z') AS BLOB) WHERE key = ?1";
    assert_eq!(copies.execute(aged, [format!("sale:{}", sale.id)]).expect("aged"), 1);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        join_all((0..4).map(|_| info())).await;
    }
}
