//! A killed app, a stopped order writer, and a frozen or emptied Redis: nothing is oversold, and no acknowledged
//! reservation that Redis or the ledger keeps is lost (D3, D4, D8; I1, I2, I3, I4).

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{StreamExt, future::join_all, stream};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use support::{Buyer, TestActivity, TestApp, activity::single_sku, eventually};

const BUYERS: usize = 600;

/// Reserves for all buyers, half of them concurrently, and kills the app after `kill_after` responses.
///
/// Returns the order number of each buyer, `None` without a 202.
async fn reserve_until_killed(
    app: &TestApp,
    activity: &TestActivity,
    buyers: &[Buyer],
    kill_after: usize,
) -> Vec<Option<String>> {
    let response_count = AtomicUsize::new(0);
    let path = format!("/api/activities/{}/orders", activity.id);
    let reservations = buyers.iter().map(async |buyer| {
        let body = TestApp::reservation_body(activity, buyer, "a", 1);
        let response = app.http.try_send(Method::POST, &path, "", &body).await.ok()?;
        if response_count.fetch_add(1, Ordering::SeqCst) + 1 == kill_after {
            app.with_app(|app| app.kill());
        }
        // Without a 202 the outcome is unknown, not failed.
        (response.status == 202).then(|| response.text("order_no"))
    });
    stream::iter(reservations).buffered(buyers.len() / 2).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_reservation_is_an_order_after_the_app_was_killed() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({"skus": single_sku(BUYERS as i64)})).await;
    let buyers = app.create_buyers(&activity, BUYERS).await;
    let acknowledged = reserve_until_killed(&app, &activity, &buyers, BUYERS / 3).await;
    let accepted = acknowledged.iter().flatten().count();
    assert!((BUYERS / 3..BUYERS).contains(&accepted), "{accepted} of {BUYERS} were accepted before the end");

    app.restart();
    // The messages that were pending for the killed writer are claimed after ten seconds.
    eventually("the queue to be empty", async || {
        app.sweep().await;
        let queue = app.stats(&activity.id).await["queue"].clone();
        if queue == 0 { Ok(()) } else { Err(queue) }
    })
    .await;
    let accepted_orders =
        buyers.iter().zip(&acknowledged).filter_map(|(buyer, acknowledged)| Some((buyer, acknowledged.as_ref()?)));
    for (buyer, order_no) in accepted_orders {
        app.wait_for_status(order_no, &buyer.ticket, "pending_payment").await;
    }
    // Every buyer retries with the same ticket: an acknowledged order stays, and the others get or have one.
    for (buyer, acknowledged) in buyers.iter().zip(&acknowledged) {
        let replayed = app.reserve(&activity, buyer, "a", 1).await.is(202).text("order_no");
        assert!(
            acknowledged.as_ref().is_none_or(|acknowledged| *acknowledged == replayed),
            "{acknowledged:?} became {replayed}"
        );
    }
    assert_eq!(app.settle_and_count(&activity).await, [0, BUYERS as i64, 0]);
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, BUYERS as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_writer_catches_up_after_a_pause() {
    let app = TestApp::dedicated();
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    let activity = app.create_activity(json!({"skus": single_sku(300)})).await;
    let buyers = app.create_buyers(&activity, 200).await;
    let mut orders = vec![];
    for buyer in &buyers {
        orders.push(app.reserve(&activity, buyer, "a", 1).await.is(202).text("order_no"));
    }
    let last = app.get_order(&orders[199], &buyers[199].ticket).await.is(200).json();
    assert_eq!((&last["status"], &last["ahead"]), (&json!("queued"), &json!(199)));
    assert_eq!(app.stats(&activity.id).await["queue"], 200);
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, 0);
    // An order cannot be paid or cancelled before it is in the ledger; trying to loses nothing.
    app.checkout(&orders[0], &buyers[0].jwt).await.is_problem(409, "state_conflict");
    app.cancel(&orders[0], &buyers[0].jwt).await.is_problem(409, "state_conflict");

    app.with_app(|app| app.signal_trigger("redis", Signal::SIGCONT)).expect("the process");
    for (order_no, buyer) in orders.iter().zip(&buyers) {
        app.wait_for_status(order_no, &buyer.ticket, "pending_payment").await;
    }
    assert_eq!(app.settle_and_count(&activity).await, [100, 200, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_writes_orders_while_the_writer_is_stopped() {
    let app = TestApp::dedicated();
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    let activity = app.create_activity(json!({"skus": single_sku(2_000)})).await;
    let buyers = app.create_buyers(&activity, 1_200).await;
    for batch in buyers.chunks(100) {
        for response in join_all(batch.iter().map(|buyer| app.reserve(&activity, buyer, "a", 1))).await {
            response.is(202);
        }
    }
    eventually("the queue to be empty", async || {
        app.sweep().await;
        let queue = app.stats(&activity.id).await["queue"].clone();
        if queue == 0 { Ok(()) } else { Err(queue) }
    })
    .await;
    assert_eq!(app.settle_and_count(&activity).await, [800, 1_200, 0]);
    // When the writer continues, nothing is left to write, and it handles the next order.
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGCONT)).expect("the process");
    let late_buyer = app.create_buyer(&activity, "late").await;
    app.place_order(&activity, &late_buyer).await;
    assert_eq!(app.settle_and_count(&activity).await, [799, 1_201, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_with_unacknowledged_messages_loses_none() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({"skus": single_sku(400)})).await;
    let buyers = app.create_buyers(&activity, 400).await;
    // Read messages as a consumer of the group that never acknowledges them, like a writer that died.
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("a process of the Redis trigger");
    for batch in buyers.chunks(100) {
        join_all(batch.iter().map(|buyer| app.reserve(&activity, buyer, "a", 1))).await;
    }
    let stream = format!("{{{}}}:orders", activity.id);
    let mut redis = app.connect_redis().await;
    let delivered: redis::Value = redis::cmd("XREADGROUP")
        .arg(&["GROUP", "writers", "a-writer-that-dies", "COUNT", "150", "STREAMS", &stream, ">"])
        .query_async(&mut redis)
        .await
        .expect("messages");
    assert_ne!(delivered, redis::Value::Nil);
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGCONT)).expect("the process");
    assert_eq!(app.settle_and_count(&activity).await, [0, 400, 0]);
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_killed_repeatedly_oversells_nothing_and_loses_nothing() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({"skus": single_sku(250)})).await;
    let buyers = app.create_buyers(&activity, 400).await;
    let mut acknowledged: Vec<Option<String>> = vec![None; buyers.len()];
    for round in 0..3 {
        let batch = &buyers[round * 100..(round + 1) * 100];
        let responses = reserve_until_killed(&app, &activity, batch, 40 + round * 10).await;
        acknowledged.splice(round * 100..(round + 1) * 100, responses);
        app.restart();
    }
    let responses = join_all(buyers.iter().map(|buyer| app.reserve(&activity, buyer, "a", 1))).await;
    let accepted = responses.iter().filter(|response| response.status == 202).count();
    assert_eq!(accepted, 250);
    for ((acknowledged, response), buyer) in acknowledged.iter().zip(&responses).zip(&buyers) {
        if let Some(order_no) = acknowledged {
            assert_eq!(response.clone().is(202).text("order_no"), *order_no, "{}", buyer.user);
        }
    }
    assert_eq!(app.settle_and_count(&activity).await, [0, 250, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_frozen_nothing_is_sold_and_no_reservation_is_reported_as_failed() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({})).await;
    let buyers = app.create_buyers(&activity, 2).await;
    let order_no = app.place_order(&activity, &buyers[0]).await;
    // Stopped, not killed: connections stay open and get no reply.
    app.with_redis(|redis| redis.process().signal(Signal::SIGSTOP));
    let path = format!("/api/activities/{}/orders", activity.id);
    let body = TestApp::reservation_body(&activity, &buyers[1], "a", 1);
    let request = app.http.try_send(Method::POST, &path, "", &body);
    let response = tokio::time::timeout(Duration::from_secs(3), request).await;
    if let Ok(Ok(response)) = response {
        response.is_problem(503, "not_ready");
    }
    app.with_redis(|redis| redis.process().signal(Signal::SIGCONT));
    eventually("reservations to work again", async || {
        let response = app.reserve(&activity, &buyers[1], "a", 1).await;
        if response.status == 202 { Ok(()) } else { Err(response.body) }
    })
    .await;
    app.wait_for_status(&order_no, &buyers[0].jwt, "pending_payment").await;
    assert_eq!(app.settle_and_count(&activity).await, [8, 2, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_redis_sells_nothing() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({})).await;
    let buyers = app.create_buyers(&activity, 2).await;
    let order_no = app.place_order(&activity, &buyers[0]).await;
    let mut redis = app.connect_redis().await;
    let _: () = redis::cmd("FLUSHALL").query_async(&mut redis).await.expect("forgotten");
    eventually("what memory knew to be old", async || {
        let response = app.reserve(&activity, &buyers[1], "a", 1).await;
        assert_ne!(response.status, 202, "{response:?}");
        if response.code() == "not_ready" { Ok(()) } else { Err(response.body) }
    })
    .await;
    // The ledger still has the order.
    app.wait_for_status(&order_no, &buyers[0].jwt, "pending_payment").await;
    let response = app.call_admin(Method::POST, &format!("/activities/{}/publish", activity.id), &Value::Null).await;
    assert!(response.status < 500, "{response:?}");
    let audit = app.audit(&activity.id).await;
    let left = audit["skus"][0]["redis"]["left"].as_i64();
    assert!(left.is_none_or(|left| left <= 9), "a held unit is on sale again: {audit}");
}
