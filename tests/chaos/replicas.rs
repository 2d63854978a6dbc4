//! Runs several app processes on one Redis and one PostgreSQL behind nginx, and kills them in turn.

use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{TestApp, activity::single_sku};

use crate::cluster::Cluster;

const BUYERS: usize = 300;
const UNITS: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn four_app_processes_killed_in_turn_sell_every_unit_once() {
    let cluster = Cluster::behind_nginx(4, &[]);
    let app = &cluster.app;
    let activity = app.create_activity(json!({"skus": single_sku(UNITS)})).await;
    let buyers = app.create_buyers(&activity, BUYERS).await;
    let path = format!("/api/activities/{}/orders", activity.id);
    let restarts = async {
        for turn in 0..cluster.len() {
            tokio::time::sleep(Duration::from_millis(400)).await;
            tokio::task::block_in_place(|| cluster.restart(turn));
        }
    };
    let purchases = buyers.iter().enumerate().map(async |(index, buyer)| {
        tokio::time::sleep(Duration::from_millis(index as u64 * 8)).await;
        let body = TestApp::reservation_body(&activity, buyer, "a", 1);
        loop {
            match app.http.try_send(Method::POST, &path, "", &body).await {
                Ok(response) if response.status == 202 => return Some(response.text("order_no")),
                // After a lost answer the order may exist: a client reads it.
                Ok(response) if response.status == 409 => {
                    let order_no = response.text("order_no");
                    let path = format!("/api/orders/{order_no}?last=true");
                    match app.http.try_send(Method::GET, &path, &buyer.ticket, &Value::Null).await {
                        Ok(order) if order.status == 200 => return Some(order_no),
                        Ok(order) if order.status == 404 => return None,
                        _ => {}
                    }
                }
                Ok(response) => {
                    let is_retryable = matches!(response.status, 429 | 503) || response.is_engine_shutdown();
                    assert!(is_retryable, "{response:?}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let (order_nos, ()) = futures::join!(join_all(purchases), restarts);

    assert_eq!(app.finish_and_count(&activity).await, [0, UNITS, 0]);
    assert_eq!(order_nos.iter().flatten().count(), usize::try_from(UNITS).expect("a number"));
    for (buyer, order_no) in buyers.iter().zip(&order_nos) {
        if let Some(order_no) = order_no {
            app.wait_for_status(order_no, &buyer.ticket, "pending_payment").await;
        }
    }
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, UNITS);
}
