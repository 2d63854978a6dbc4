//! The sweeper: expires due orders exactly once, with any number of concurrent sweepers (E3, G3).

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use support::{
    TestApp,
    activity::{activity_spec, seconds_from_now, single_sku},
    eventually,
};

#[tokio::test]
async fn the_sweep_route_accepts_only_the_cron_token() {
    let app = TestApp::shared();
    for token in ["", "wrong", app.variables.get("admin_token"), &app.sign_in("ada")] {
        app.http.post("/api/tasks/sweep", token, &Value::Null).await.is_problem(401, "unauthenticated");
    }
    let report = app.sweep().await;
    assert!(report.is_object(), "{report}");
}

#[tokio::test]
async fn an_unpaid_order_is_shown_as_expired_before_any_sweep() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"pay_timeout_seconds": 1})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let order_no = app.reserve(&activity, &buyer, "a", 1).await.is(202).text("order_no");
    app.wait_for_status(&order_no, &buyer.ticket, "expired").await;
    app.checkout(&order_no, &buyer.jwt).await.is_problem(409, "state_conflict");
    assert_eq!(app.settle_and_count(&activity).await, [10, 0, 0]);
    app.wait_for_status(&order_no, &buyer.ticket, "expired").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_sweepers_return_every_unit_once() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"pay_timeout_seconds": 1, "skus": single_sku(300)})).await;
    let buyers = app.create_buyers(&activity, 200).await;
    let orders: Vec<_> = join_all(buyers.iter().map(|buyer| app.reserve(&activity, buyer, "a", 1))).await;
    let last = orders.last().expect("an order").text("order_no");
    app.wait_for_status(&last, &buyers[199].ticket, "expired").await;
    // Another test's sweeper may hold the lease; then these twelve do nothing.
    eventually("every order to be swept", async || {
        join_all((0..12).map(|_| app.sweep())).await;
        let expired = app.count_orders_with_status(&activity, "expired").await;
        if expired == 200 { Ok(()) } else { Err(expired) }
    })
    .await;
    assert_eq!(app.settle_and_count(&activity).await, [300, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_due_orders_are_swept() {
    const ORDERS: usize = 10_000;
    let app = TestApp::dedicated();
    let activity = app
        .create_activity(json!({"pay_timeout_seconds": 1, "skus": single_sku(ORDERS as i64), "per_user": ORDERS}))
        .await;
    for _ in 0..ORDERS / 100 {
        let batch = (0..100).map(async |_| {
            let buyer = app.create_buyer(&activity, "bulk").await;
            app.reserve(&activity, &buyer, "a", 1).await.is(202);
        });
        join_all(batch).await;
    }
    eventually("all of them to be written", async || {
        let written = app.count_orders(&activity.id, "1 = 1").await;
        if written == ORDERS as i64 { Ok(()) } else { Err(written) }
    })
    .await;
    let last_pay_by = "SELECT CAST(COALESCE(MAX(pay_by), 0) AS BIGINT) FROM orders";
    let last = app.query_ledger_i64(last_pay_by).await;
    eventually("all of them to be due", async || {
        let now = app.stats(&activity.id).await["server_time"].as_str().map(str::to_owned).unwrap_or_default();
        let now = time::OffsetDateTime::parse(&now, &time::format_description::well_known::Rfc3339).expect("a time");
        if now.unix_timestamp() * 1000 > last { Ok(()) } else { Err(now) }
    })
    .await;

    let start = Instant::now();
    let mut calls = 0;
    while app.count_orders_with_status(&activity, "pending_payment").await > 0 {
        app.sweep().await;
        calls += 1;
        assert!(calls < 50, "the sweep did not finish within 50 calls");
    }
    let elapsed = start.elapsed();
    println!("{ORDERS} orders swept in {elapsed:?} by {calls} calls");
    // The benchmark measures the goal of 2 s on an idle machine; this is only an upper bound.
    assert!(elapsed < Duration::from_secs(60), "{elapsed:?}");
    assert_eq!(app.settle_and_count(&activity).await, [ORDERS as i64, 0, 0]);
    assert_eq!(app.count_orders_with_status(&activity, "expired").await, ORDERS as i64);
}

#[tokio::test]
async fn an_old_sale_is_exported_and_erased() {
    let app = TestApp::with_variables(|variables| variables.set("retention_days", "0"));
    let activity = app.create_activity(json!({})).await;
    let mut orders = Vec::new();
    for user in ["ada", "bob", "cyd"] {
        let buyer = app.create_buyer(&activity, user).await;
        orders.push(app.place_order(&activity, &buyer).await);
        app.cancel(orders.last().expect("an order"), &buyer.jwt).await.is(200);
    }
    orders.sort();
    let path = format!("/activities/{}", activity.id);
    let (mut exported, mut after) = (Vec::new(), String::new());
    loop {
        let page = format!("{path}/orders?limit=2&after={after}");
        let page = app.call_admin(Method::GET, &page, &Value::Null).await.is(200).json();
        let Some(last) = page.as_array().expect("a list").last() else { break };
        after = last["order_no"].as_str().expect("a number").to_owned();
        exported.extend(page.as_array().expect("a list").clone());
    }
    let numbers: Vec<_> = exported.iter().map(|order| order["order_no"].as_str().expect("a number")).collect();
    assert_eq!(numbers, orders);
    assert!(exported.iter().all(|order| order["status"] == "cancelled" && order["user"].is_string()), "{exported:?}");
    let other = app.create_activity(json!({})).await;
    for wrong in [format!("{path}/orders?limit=0"), format!("/activities/{}/orders?after={after}", other.id)] {
        app.call_admin(Method::GET, &wrong, &Value::Null).await.is_problem(400, "invalid_request");
    }

    app.call_admin(Method::PUT, &path, &activity_spec(&json!({"ends_at": seconds_from_now(1)}))).await.is(200);
    let redis = app.connect_redis().await;
    eventually("the sale to be erased", async || {
        // Its keys expire a week after its end; erasing begins again ten minutes after the last time.
        for pattern in [format!("{{{}}}:*", activity.id), "stampede:erase".to_owned()] {
            let keys: Vec<String> =
                redis::cmd("KEYS").arg(&pattern).query_async(&mut redis.clone()).await.expect("KEYS");
            for key in keys {
                let _: i64 = redis::cmd("DEL").arg(key).query_async(&mut redis.clone()).await.expect("DEL");
            }
        }
        let report = app.sweep().await;
        if report["erased_activities"] == 1 { Ok(()) } else { Err(report) }
    })
    .await;
    app.call_admin(Method::GET, &path, &Value::Null).await.is_problem(404, "not_found");
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, 0);
    app.call_admin(Method::GET, &format!("/activities/{}", other.id), &Value::Null).await.is(200);
}
