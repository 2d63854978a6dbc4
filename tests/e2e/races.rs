//! Cancel, pay and expire at the same instant: one of them wins, and a unit is returned exactly once (I5, I6; E3–E5).

use std::time::Duration;

use futures::{FutureExt, future::join_all};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use support::{Buyer, Sale, TestApp, activity::units, eventually};

/// Orders that race at the same time in one round.
const ORDERS: usize = 24;
/// Rounds, each of which starts its calls at other offsets.
const ROUNDS: u64 = 4;

/// An order that waits for money.
struct Runner {
    buyer: Buyer,
    order_no: String,
    session: String,
}

/// A sale with a short time to pay, all of it held by buyers with a payment session.
async fn line_up(app: &TestApp, seconds: i64) -> (Sale, Vec<Runner>) {
    let changes = json!({"skus": units(ORDERS as i64), "pay_timeout_seconds": seconds});
    let sale = app.sale(changes).await;
    let buyers = app.buyers(&sale, ORDERS).await;
    let runners = buyers.into_iter().map(async |buyer| {
        let order_no = app.reserve(&sale, &buyer, "a", 1).await.is(202).text("order_no");
        eventually("the order to be written", async || {
            let order = app.status(&order_no, &buyer.ticket).await.is(200);
            if order.text("status") == "queued" { Err(order.body) } else { Ok(()) }
        })
        .await;
        let opened = app.checkout(&order_no, &buyer.jwt).await;
        // On a machine that stood still an order may be due by now: it races without a page.
        let session = match opened.status {
            409 => {
                assert_eq!(app.status(&order_no, &buyer.ticket).await.text("status"), "expired", "{opened:?}");
                "none".to_owned()
            }
            _ => opened.is(200).text("checkout_url").rsplit('/').next().expect("a session").to_owned(),
        };
        Runner { buyer, order_no, session }
    });
    let runners = join_all(runners).await;
    let with_a_page = runners.iter().filter(|runner| runner.session != "none").count();
    println!("{with_a_page} of {ORDERS} race with a page");
    (sale, runners)
}

/// Waits until half of the orders are due, so that a moment later or earlier makes a difference.
async fn half_due(app: &TestApp, runners: &[Runner]) {
    let mut pay_by = join_all(runners.iter().map(async |runner| {
        let order = app.status(&runner.order_no, &runner.buyer.ticket).await.is(200).json();
        // One that has no time left shows none.
        order["pay_by"]
            .as_str()
            .map_or_else(OffsetDateTime::now_utc, |at| OffsetDateTime::parse(at, &Rfc3339).expect("a time"))
    }))
    .await;
    pay_by.sort_unstable();
    let wait = pay_by[pay_by.len() / 2] - OffsetDateTime::now_utc();
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
}

/// What became of the orders.
async fn ends(app: &TestApp, runners: &[Runner]) -> Vec<Value> {
    join_all(runners.iter().map(async |runner| app.status(&runner.order_no, &runner.buyer.jwt).await.is(200).json()))
        .await
}

async fn after(offset: u64) {
    tokio::time::sleep(Duration::from_millis(offset)).await;
}

async fn succeed(app: &TestApp, runner: &Runner) -> u16 {
    let body = TestApp::callback("payment.succeeded", &runner.order_no, &runner.session);
    app.call_back(&format!("evt-{}", runner.order_no), &body).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_pay_at_once_leave_money_with_an_order_or_a_refund() {
    let app = TestApp::shared();
    for round in 0..ROUNDS {
        let (sale, runners) = line_up(&app, 600).await;
        let races = runners.iter().enumerate().map(async |(at, runner)| {
            let (cancel, pay) = (app.cancel(&runner.order_no, &runner.buyer.jwt), succeed(&app, runner));
            let head_start = at as u64 * round % 7;
            futures::join!(cancel, after(head_start).then(|()| pay))
        });
        for ((cancelled, called_back), order) in join_all(races).await.into_iter().zip(ends(&app, &runners).await) {
            assert_eq!(called_back, 204);
            match cancelled.status {
                200 => {
                    assert!(["paid", "refunding", "refunded"].map(Value::from).contains(&order["status"]), "{order}")
                }
                _ => assert_eq!((cancelled.code().as_str(), &order["status"]), ("state_conflict", &json!("paid"))),
            }
        }
        let [left, held, sold] = app.settled(&sale).await;
        let paid = app.ledger_count(&sale, "paid").await;
        assert_eq!([left + sold, held, sold], [ORDERS as i64, 0, paid]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_expire_at_once_return_the_unit_once() {
    let app = TestApp::shared();
    for round in 0..ROUNDS {
        let (sale, runners) = line_up(&app, 2).await;
        half_due(&app, &runners).await;
        let races = runners.iter().enumerate().map(async |(at, runner)| {
            after(at as u64 * round % 5).await;
            app.cancel(&runner.order_no, &runner.buyer.jwt).await
        });
        let (cancelled, ..) = futures::join!(join_all(races), app.sweep(), after(round).then(|()| app.sweep()));
        for (cancelled, order) in cancelled.into_iter().zip(ends(&app, &runners).await) {
            let end = if cancelled.status == 200 { "cancelled" } else { "expired" };
            assert_eq!(order["status"], end, "{cancelled:?}");
        }
        assert_eq!(app.settled(&sale).await, [ORDERS as i64, 0, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_expire_and_pay_at_the_same_instant_keep_the_books() {
    let app = TestApp::shared();
    for round in 0..ROUNDS {
        let (sale, runners) = line_up(&app, 2).await;
        half_due(&app, &runners).await;
        let races = runners.iter().enumerate().map(async |(at, runner)| {
            let (cancel, pay) = (app.cancel(&runner.order_no, &runner.buyer.jwt), succeed(&app, runner));
            let (a, b) = (at as u64 * round % 5, at as u64 * round % 3);
            futures::join!(after(a).then(|()| cancel), after(b).then(|()| pay))
        });
        let sweeps = (0..3).map(async |at| after(at * round).then(|()| app.sweep()).await);
        let (raced, _) = futures::join!(join_all(races), join_all(sweeps));
        for ((_, called_back), order) in raced.into_iter().zip(ends(&app, &runners).await) {
            assert_eq!(called_back, 204);
            // The provider has the money: there is an order or a refund for it, whoever was first.
            let status = order["status"].as_str().unwrap_or_default();
            assert!(["paid", "refunding", "refunded"].contains(&status), "{order}");
        }
        let [left, held, sold] = app.settled(&sale).await;
        let paid = app.ledger_count(&sale, "paid").await;
        assert_eq!([left + sold, held, sold], [ORDERS as i64, 0, paid]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_payment_takes_the_unit_again_while_there_is_one_and_is_refunded_otherwise() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"skus": units(2)})).await;
    let mut runners = vec![];
    for buyer in app.buyers(&sale, 2).await {
        let order_no = app.order(&sale, &buyer).await;
        let session = app.session(&order_no, &buyer.jwt).await;
        app.cancel(&order_no, &buyer.jwt).await.is(200);
        runners.push(Runner { buyer, order_no, session });
    }
    // Both units are free. One is sold to somebody else; one is left for two late payments.
    let other = app.buyer(&sale, "other").await;
    app.order(&sale, &other).await;
    let answers = join_all(runners.iter().map(|runner| succeed(&app, runner))).await;
    assert_eq!(answers, [204, 204]);
    let statuses: Vec<_> = ends(&app, &runners).await.iter().map(|order| order["status"].clone()).collect();
    assert!(statuses.contains(&json!("paid")), "{statuses:?}");
    // Another test's sweep may have ended it already.
    let refunded = [json!("refunding"), json!("refunded")];
    assert!(statuses.iter().any(|status| refunded.contains(status)), "{statuses:?}");
    assert_eq!(app.settled(&sale).await, [0, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_button_pressed_by_many_hands_pays_once() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let order_no = app.order(&sale, &buyer).await;
    let session = app.session(&order_no, &buyer.jwt).await;
    let presses = join_all((0..20).map(|_| app.press(&session, "paid"))).await;
    assert!(presses.iter().all(|answer| answer.status < 300), "{presses:?}");
    app.wait_for(&order_no, &buyer.jwt, "paid").await;
    let refunds = join_all((0..20).map(|_| app.refund(&order_no, &buyer.jwt))).await;
    assert!(refunds.iter().any(|answer| answer.status == 202), "{refunds:?}");
    assert!(refunds.iter().all(|answer| answer.status == 202 || answer.code() == "state_conflict"), "{refunds:?}");
    eventually("the money to be back", async || {
        app.sweep().await;
        let order = app.status(&order_no, &buyer.jwt).await.json();
        if order["status"] == "refunded" { Ok(()) } else { Err(order) }
    })
    .await;
    assert_eq!(app.settled(&sale).await, [10, 0, 0]);
}

/// The buyer of a cancelled order sees it as what it is, from the first moment on.
#[tokio::test]
async fn a_second_cancel_changes_nothing() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let order_no = app.order(&sale, &buyer).await;
    assert_eq!(app.cancel(&order_no, &buyer.jwt).await.is(200).text("status"), "cancelled");
    let second = app.cancel(&order_no, &buyer.jwt).await;
    assert!(
        second.status == 200 && second.text("status") == "cancelled" || second.code() == "state_conflict",
        "{second:?}"
    );
    assert_eq!(app.settled(&sale).await, [10, 0, 0]);
}
