//! Concurrent cancel, payment and expiry: one of them wins, and a unit is returned exactly once (I5, I6; E3, E4, E5).

use std::time::Duration;

use futures::{FutureExt, future::join_all};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use support::{Buyer, TestActivity, TestApp, activity::single_sku, eventually};

/// Orders in one round, all raced concurrently.
const ORDERS: usize = 24;
/// Rounds; each one starts its requests with other delays.
const ROUNDS: u64 = 4;

/// An order that can be paid.
struct PendingOrder {
    buyer: Buyer,
    order_no: String,
    session: String,
}

/// Creates an activity whose units are all held by buyers with a payment session; `seconds` is the time to pay.
async fn create_pending_orders(app: &TestApp, seconds: i64) -> (TestActivity, Vec<PendingOrder>) {
    let changes = json!({"skus": single_sku(ORDERS as i64), "pay_timeout_seconds": seconds});
    let activity = app.create_activity(changes).await;
    let buyers = app.create_buyers(&activity, ORDERS).await;
    let orders = buyers.into_iter().map(async |buyer| {
        let order_no = app.reserve(&activity, &buyer, "a", 1).await.is(202).text("order_no");
        eventually("the order to be written", async || {
            let order = app.get_order(&order_no, &buyer.ticket).await.is(200);
            if order.text("status") == "queued" { Err(order.body) } else { Ok(()) }
        })
        .await;
        let opened = app.checkout(&order_no, &buyer.jwt).await;
        // On a slow machine an order may have expired by now: it takes part without a session.
        let session = match opened.status {
            409 => {
                assert_eq!(app.get_order(&order_no, &buyer.ticket).await.text("status"), "expired", "{opened:?}");
                "none".to_owned()
            }
            _ => opened.is(200).text("checkout_url").rsplit('/').next().expect("a session").to_owned(),
        };
        PendingOrder { buyer, order_no, session }
    });
    let orders = join_all(orders).await;
    let with_session = orders.iter().filter(|pending| pending.session != "none").count();
    println!("{with_session} of {ORDERS} race with a page");
    (activity, orders)
}

/// Waits until half of the orders are due, so that requests and expiry overlap.
async fn wait_until_half_are_due(app: &TestApp, orders: &[PendingOrder]) {
    let mut pay_by = join_all(orders.iter().map(async |pending| {
        let order = app.get_order(&pending.order_no, &pending.buyer.ticket).await.is(200).json();
        // An expired order has no `pay_by`.
        order["pay_by"]
            .as_str()
            .map_or_else(OffsetDateTime::now_utc, |at| OffsetDateTime::parse(at, &Rfc3339).expect("a time"))
    }))
    .await;
    pay_by.sort_unstable();
    let wait = pay_by[pay_by.len() / 2] - OffsetDateTime::now_utc();
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
}

/// Loads the current documents of the orders.
async fn load_orders(app: &TestApp, orders: &[PendingOrder]) -> Vec<Value> {
    join_all(
        orders.iter().map(async |pending| app.get_order(&pending.order_no, &pending.buyer.jwt).await.is(200).json()),
    )
    .await
}

/// Waits for `offset` milliseconds.
async fn delay_ms(offset: u64) {
    tokio::time::sleep(Duration::from_millis(offset)).await;
}

/// Sends the provider's callback for a successful payment, and returns the status.
async fn send_payment_succeeded(app: &TestApp, pending: &PendingOrder) -> u16 {
    let body = TestApp::callback_body("payment.succeeded", &pending.order_no, &pending.session);
    app.send_callback(&format!("evt-{}", pending.order_no), &body).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_cancel_and_payment_end_in_a_paid_order_or_a_refund() {
    let app = TestApp::shared();
    for round in 0..ROUNDS {
        let (activity, orders) = create_pending_orders(&app, 600).await;
        let races = orders.iter().enumerate().map(async |(index, pending)| {
            let (cancel, pay) =
                (app.cancel(&pending.order_no, &pending.buyer.jwt), send_payment_succeeded(&app, pending));
            let offset = index as u64 * round % 7;
            futures::join!(cancel, delay_ms(offset).then(|()| pay))
        });
        for ((cancelled, called_back), order) in join_all(races).await.into_iter().zip(load_orders(&app, &orders).await)
        {
            assert_eq!(called_back, 204);
            match cancelled.status {
                200 => {
                    assert!(["paid", "refunding", "refunded"].map(Value::from).contains(&order["status"]), "{order}")
                }
                _ => assert_eq!((cancelled.code().as_str(), &order["status"]), ("state_conflict", &json!("paid"))),
            }
        }
        let [left, held, sold] = app.settle_and_count(&activity).await;
        let paid = app.count_orders_with_status(&activity, "paid").await;
        assert_eq!([left + sold, held, sold], [ORDERS as i64, 0, paid]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_cancel_and_expiry_return_the_unit_once() {
    let app = TestApp::shared();
    for round in 0..ROUNDS {
        let (activity, orders) = create_pending_orders(&app, 2).await;
        wait_until_half_are_due(&app, &orders).await;
        let races = orders.iter().enumerate().map(async |(index, pending)| {
            delay_ms(index as u64 * round % 5).await;
            app.cancel(&pending.order_no, &pending.buyer.jwt).await
        });
        let (cancelled, ..) = futures::join!(join_all(races), app.sweep(), delay_ms(round).then(|()| app.sweep()));
        for (cancelled, order) in cancelled.into_iter().zip(load_orders(&app, &orders).await) {
            let end = if cancelled.status == 200 { "cancelled" } else { "expired" };
            assert_eq!(order["status"], end, "{cancelled:?}");
        }
        assert_eq!(app.settle_and_count(&activity).await, [ORDERS as i64, 0, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_cancelled_expired_and_paid_at_once_end_paid_or_refunded_and_return_each_unit_once() {
    let app = TestApp::shared();
    for round in 0..ROUNDS {
        let (activity, orders) = create_pending_orders(&app, 2).await;
        wait_until_half_are_due(&app, &orders).await;
        let races = orders.iter().enumerate().map(async |(index, pending)| {
            let (cancel, pay) =
                (app.cancel(&pending.order_no, &pending.buyer.jwt), send_payment_succeeded(&app, pending));
            let (a, b) = (index as u64 * round % 5, index as u64 * round % 3);
            futures::join!(delay_ms(a).then(|()| cancel), delay_ms(b).then(|()| pay))
        });
        let sweeps = (0..3).map(async |index| delay_ms(index * round).then(|()| app.sweep()).await);
        let (raced, _) = futures::join!(join_all(races), join_all(sweeps));
        for ((_, called_back), order) in raced.into_iter().zip(load_orders(&app, &orders).await) {
            assert_eq!(called_back, 204);
            // The provider has the payment: whichever request was first, there is a paid order or a refund (I6).
            let status = order["status"].as_str().unwrap_or_default();
            assert!(["paid", "refunding", "refunded"].contains(&status), "{order}");
        }
        let [left, held, sold] = app.settle_and_count(&activity).await;
        let paid = app.count_orders_with_status(&activity, "paid").await;
        assert_eq!([left + sold, held, sold], [ORDERS as i64, 0, paid]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_payment_reacquires_a_unit_or_is_refunded() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"skus": single_sku(2)})).await;
    let mut orders = vec![];
    for buyer in app.create_buyers(&activity, 2).await {
        let order_no = app.place_order(&activity, &buyer).await;
        let session = app.open_session(&order_no, &buyer.jwt).await;
        app.cancel(&order_no, &buyer.jwt).await.is(200);
        orders.push(PendingOrder { buyer, order_no, session });
    }
    // Both units were returned. One is sold to another buyer; one is left for two late payments.
    let other = app.create_buyer(&activity, "other").await;
    app.place_order(&activity, &other).await;
    let responses = join_all(orders.iter().map(|pending| send_payment_succeeded(&app, pending))).await;
    assert_eq!(responses, [204, 204]);
    let statuses: Vec<_> = load_orders(&app, &orders).await.iter().map(|order| order["status"].clone()).collect();
    assert!(statuses.contains(&json!("paid")), "{statuses:?}");
    // Another test's sweep may have completed the refund already.
    let refunded = [json!("refunding"), json!("refunded")];
    assert!(statuses.iter().any(|status| refunded.contains(status)), "{statuses:?}");
    assert_eq!(app.settle_and_count(&activity).await, [0, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_submissions_of_one_payment_pay_once_and_refund_once() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let order_no = app.place_order(&activity, &buyer).await;
    let session = app.open_session(&order_no, &buyer.jwt).await;
    let responses = join_all((0..20).map(|_| app.submit_payment(&session, "paid"))).await;
    assert!(responses.iter().all(|response| response.status < 300), "{responses:?}");
    app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    let refunds = join_all((0..20).map(|_| app.refund(&order_no, &buyer.jwt))).await;
    assert!(refunds.iter().any(|response| response.status == 202), "{refunds:?}");
    assert!(
        refunds.iter().all(|response| response.status == 202 || response.code() == "state_conflict"),
        "{refunds:?}"
    );
    app.sweep_until_refunded(&order_no, &buyer.jwt).await;
    assert_eq!(app.settle_and_count(&activity).await, [10, 0, 0]);
}

/// The first response already shows the order as `cancelled`.
#[tokio::test]
async fn a_second_cancel_changes_nothing() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let order_no = app.place_order(&activity, &buyer).await;
    assert_eq!(app.cancel(&order_no, &buyer.jwt).await.is(200).text("status"), "cancelled");
    let second = app.cancel(&order_no, &buyer.jwt).await;
    assert_eq!(second.is(200).text("status"), "cancelled");
    assert_eq!(app.settle_and_count(&activity).await, [10, 0, 0]);
}
