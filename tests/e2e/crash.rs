//! What dies in the middle: every answer that was given holds afterwards (D3, D4, D8; I1–I4).

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{StreamExt, future::join_all, stream};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use support::{Buyer, Sale, TestApp, activity::units, eventually};

const BUYERS: usize = 600;

/// Half of them at once; kills the app when `after` were accepted. Answers who was told what.
async fn storm(app: &TestApp, sale: &Sale, buyers: &[Buyer], after: usize) -> Vec<Option<String>> {
    let accepted = AtomicUsize::new(0);
    let path = format!("/api/activities/{}/orders", sale.id);
    let wishes = buyers.iter().map(async |buyer| {
        let body = TestApp::reservation(sale, buyer, "a", 1);
        let answer = app.http.try_send(Method::POST, &path, "", &body).await.ok()?;
        if accepted.fetch_add(1, Ordering::SeqCst) + 1 == after {
            app.with_app(|app| app.kill());
        }
        // Whoever gets no 202 knows nothing: unknown is not failed.
        (answer.status == 202).then(|| answer.text("order_no"))
    });
    stream::iter(wishes).buffered(buyers.len() / 2).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_reservation_is_an_order_after_the_app_was_killed() {
    let app = TestApp::own();
    let sale = app.sale(json!({"skus": units(BUYERS as i64)})).await;
    let buyers = app.buyers(&sale, BUYERS).await;
    let told = storm(&app, &sale, &buyers, BUYERS / 3).await;
    let accepted = told.iter().flatten().count();
    assert!((BUYERS / 3..BUYERS).contains(&accepted), "{accepted} of {BUYERS} were accepted before the end");

    app.restart();
    // What the writer had in its hands when it died is taken over ten seconds later.
    eventually("the queue to be empty", async || {
        app.sweep().await;
        let queue = app.stats(&sale.id).await["queue"].clone();
        if queue == 0 { Ok(()) } else { Err(queue) }
    })
    .await;
    let polls = buyers.iter().zip(&told).filter_map(|(buyer, told)| Some((buyer, told.as_ref()?)));
    for (buyer, order_no) in polls {
        app.wait_for(order_no, &buyer.ticket, "pending_payment").await;
    }
    // Everybody asks again with the same ticket: who was told keeps the order, who was not gets one now or has one.
    for (buyer, told) in buyers.iter().zip(&told) {
        let again = app.reserve(&sale, buyer, "a", 1).await.is(202).text("order_no");
        assert!(told.as_ref().is_none_or(|told| *told == again), "{told:?} became {again}");
    }
    assert_eq!(app.settled(&sale).await, [0, BUYERS as i64, 0]);
    assert_eq!(app.ledger_orders(&sale.id, "1 = 1").await, BUYERS as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_writer_catches_up_after_an_absence() {
    let app = TestApp::own();
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    let sale = app.sale(json!({"skus": units(300)})).await;
    let buyers = app.buyers(&sale, 200).await;
    let mut orders = vec![];
    for buyer in &buyers {
        orders.push(app.reserve(&sale, buyer, "a", 1).await.is(202).text("order_no"));
    }
    let last = app.status(&orders[199], &buyers[199].ticket).await.is(200).json();
    assert_eq!((&last["status"], &last["ahead"]), (&json!("queued"), &json!(199)));
    assert_eq!(app.stats(&sale.id).await["queue"], 200);
    assert_eq!(app.ledger_orders(&sale.id, "1 = 1").await, 0);
    // Nothing can be paid before it is written, and nothing is lost by trying.
    app.checkout(&orders[0], &buyers[0].jwt).await.is_problem(409, "state_conflict");
    app.cancel(&orders[0], &buyers[0].jwt).await.is_problem(409, "state_conflict");

    app.with_app(|app| app.signal_trigger("redis", Signal::SIGCONT)).expect("the process");
    for (order_no, buyer) in orders.iter().zip(&buyers) {
        app.wait_for(order_no, &buyer.ticket, "pending_payment").await;
    }
    assert_eq!(app.settled(&sale).await, [100, 200, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_writes_orders_when_there_is_no_writer_at_all() {
    let app = TestApp::own();
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    let sale = app.sale(json!({"skus": units(2_000)})).await;
    let buyers = app.buyers(&sale, 1_200).await;
    for some in buyers.chunks(100) {
        for answer in join_all(some.iter().map(|buyer| app.reserve(&sale, buyer, "a", 1))).await {
            answer.is(202);
        }
    }
    eventually("the queue to be empty", async || {
        app.sweep().await;
        let queue = app.stats(&sale.id).await["queue"].clone();
        if queue == 0 { Ok(()) } else { Err(queue) }
    })
    .await;
    assert_eq!(app.settled(&sale).await, [800, 1_200, 0]);
    // Back again, the writer finds nothing left to do and breaks nothing.
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGCONT)).expect("the process");
    let late = app.buyer(&sale, "late").await;
    app.order(&sale, &late).await;
    assert_eq!(app.settled(&sale).await, [799, 1_201, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_with_messages_in_hand_loses_none() {
    let app = TestApp::own();
    let sale = app.sale(json!({"skus": units(400)})).await;
    let buyers = app.buyers(&sale, 400).await;
    // A message that a writer took and never finished: taken here under the group's name, then nothing.
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    for some in buyers.chunks(100) {
        join_all(some.iter().map(|buyer| app.reserve(&sale, buyer, "a", 1))).await;
    }
    let stream = format!("{{{}}}:orders", sale.id);
    let mut redis = app.redis().await;
    let taken: redis::Value = redis::cmd("XREADGROUP")
        .arg(&["GROUP", "writers", "a-writer-that-dies", "COUNT", "150", "STREAMS", &stream, ">"])
        .query_async(&mut redis)
        .await
        .expect("messages");
    assert_ne!(taken, redis::Value::Nil);
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGCONT)).expect("the process");
    assert_eq!(app.settled(&sale).await, [0, 400, 0]);
    assert_eq!(app.ledger_orders(&sale.id, "1 = 1").await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_killed_again_and_again_oversells_nothing_and_loses_nothing() {
    let app = TestApp::own();
    let sale = app.sale(json!({"skus": units(250)})).await;
    let buyers = app.buyers(&sale, 400).await;
    let mut told: Vec<Option<String>> = vec![None; buyers.len()];
    for round in 0..3 {
        let some = &buyers[round * 100..(round + 1) * 100];
        let answers = storm(&app, &sale, some, 40 + round * 10).await;
        told.splice(round * 100..(round + 1) * 100, answers);
        app.restart();
    }
    let answers = join_all(buyers.iter().map(|buyer| app.reserve(&sale, buyer, "a", 1))).await;
    let won = answers.iter().filter(|answer| answer.status == 202).count();
    assert_eq!(won, 250);
    for ((told, answer), buyer) in told.iter().zip(&answers).zip(&buyers) {
        if let Some(order_no) = told {
            assert_eq!(answer.clone().is(202).text("order_no"), *order_no, "{}", buyer.user);
        }
    }
    assert_eq!(app.settled(&sale).await, [0, 250, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_nothing_is_sold_and_nobody_is_told_that_it_failed() {
    let app = TestApp::own();
    let sale = app.sale(json!({})).await;
    let buyers = app.buyers(&sale, 2).await;
    let order_no = app.order(&sale, &buyers[0]).await;
    // Frozen, not gone: a Redis that does not answer.
    app.with_redis(|redis| redis.process().signal(Signal::SIGSTOP));
    let path = format!("/api/activities/{}/orders", sale.id);
    let body = TestApp::reservation(&sale, &buyers[1], "a", 1);
    let asked = app.http.try_send(Method::POST, &path, "", &body);
    let answer = tokio::time::timeout(Duration::from_secs(3), asked).await;
    if let Ok(Ok(answer)) = answer {
        answer.is_problem(503, "not_ready");
    }
    app.with_redis(|redis| redis.process().signal(Signal::SIGCONT));
    eventually("reservations to work again", async || {
        let answer = app.reserve(&sale, &buyers[1], "a", 1).await;
        if answer.status == 202 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    app.wait_for(&order_no, &buyers[0].jwt, "pending_payment").await;
    assert_eq!(app.settled(&sale).await, [8, 2, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_forgot_everything_sells_nothing() {
    let app = TestApp::own();
    let sale = app.sale(json!({})).await;
    let buyers = app.buyers(&sale, 2).await;
    let order_no = app.order(&sale, &buyers[0]).await;
    let mut redis = app.redis().await;
    let _: () = redis::cmd("FLUSHALL").query_async(&mut redis).await.expect("forgotten");
    eventually("what memory knew to be old", async || {
        let answer = app.reserve(&sale, &buyers[1], "a", 1).await;
        assert_ne!(answer.status, 202, "{answer:?}");
        if answer.code() == "not_ready" { Ok(()) } else { Err(answer.body) }
    })
    .await;
    // The ledger still knows the order.
    app.wait_for(&order_no, &buyers[0].jwt, "pending_payment").await;
    let answer = app.admin(Method::POST, &format!("/activities/{}/publish", sale.id), &Value::Null).await;
    assert!(answer.status < 500, "{answer:?}");
    let audit = app.audit(&sale.id).await;
    let left = audit["skus"][0]["redis"]["left"].as_i64();
    assert!(left.is_none_or(|left| left <= 9), "a held unit is on sale again: {audit}");
}
