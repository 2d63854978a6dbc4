//! Runs several app processes on one Redis and one PostgreSQL behind nginx, and ends them and nginx in turn while buyers
//! reserve and pay (B9, D3, I1, I4, I6).

use std::{
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use dev::process::Process;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, Response, TestActivity, TestApp, activity::single_sku};
use tokio::{runtime::Handle, sync::Semaphore, task::block_in_place};

use crate::cluster::Cluster;

const BUYERS: usize = 300;
/// Those that buy during the disturbance; the others buy after it.
const EARLY_BUYERS: usize = 150;
const UNITS: i64 = 200;
const SOME_SALES: Duration = Duration::from_millis(400);
/// As long as `install` waits: nginx tries an app again two seconds after a failure. Until then no other may stop.
const BETWEEN_APPS: Duration = Duration::from_secs(3);

/// Responses after which the same request was sent again, by kind.
#[derive(Debug, Default)]
struct Failures {
    /// Without a response.
    connections: AtomicUsize,
    /// `502`, `503` or `504`.
    unavailable: AtomicUsize,
    /// The empty `500` of an engine that ends.
    cut: AtomicUsize,
    /// `429`: all buyers of a test have one address.
    limited: AtomicUsize,
}

impl Failures {
    /// Repeats a request until it gets a response that says something about it.
    async fn mend(&self, mut send: impl AsyncFnMut() -> Result<Response, reqwest::Error>) -> Response {
        loop {
            match send().await {
                Ok(response) if matches!(response.status, 502..=504) => &self.unavailable,
                Ok(response) if response.status == 429 => &self.limited,
                Ok(response) if response.is_engine_shutdown() => &self.cut,
                Ok(response) => return response,
                Err(_) => &self.connections,
            }
            .fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Reserves one unit. Returns the order's number, unless all units are sold.
    async fn reserve(&self, app: &TestApp, activity: &TestActivity, buyer: &Buyer) -> Option<String> {
        let path = format!("/api/activities/{}/orders", activity.id);
        let body = TestApp::reservation_body(activity, buyer, "a", 1);
        let response = self.mend(async || app.http.try_send(Method::POST, &path, "", &body).await).await;
        let order_no = response.text("order_no");
        if response.status == 202 {
            return Some(order_no);
        }
        // After a lost answer the order may exist: a client reads it.
        response.is(409);
        let path = format!("/api/orders/{order_no}?last=true");
        let order = self.mend(async || app.http.try_send(Method::GET, &path, &buyer.ticket, &Value::Null).await).await;
        (order.status == 200).then_some(order_no)
    }

    /// Waits until an order can be paid, opens its checkout, and sends the provider's callback.
    async fn pay(&self, app: &TestApp, buyer: &Buyer, order_no: &str) {
        let path = format!("/api/orders/{order_no}");
        let read = async || app.http.try_send(Method::GET, &path, &buyer.ticket, &Value::Null).await;
        while self.mend(read).await.is(200).text("status") == "queued" {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let url = self.mend(async || app.try_checkout(order_no, &buyer.jwt).await).await.is(200).text("checkout_url");
        let session = url.rsplit('/').next().unwrap_or_default();
        let (id, body) = (format!("evt-{order_no}"), TestApp::callback_body("payment.succeeded", order_no, session));
        self.mend(async || app.try_send_callback(&id, &body).await).await.is(204);
    }
}

/// Sells every unit while and after `disturb` runs, a quarter of them until they are paid, and checks that each was sold once.
async fn sell_during(cluster: &Cluster, disturb: impl FnOnce() + Send) {
    let (app, failures, calm) = (&cluster.app, Failures::default(), Semaphore::new(0));
    let activity = app.create_activity(json!({"skus": single_sku(UNITS)})).await;
    let buyers = app.create_buyers(&activity, BUYERS).await;
    let purchases = buyers.iter().enumerate().map(async |(index, buyer)| {
        if index < EARLY_BUYERS {
            tokio::time::sleep(Duration::from_millis(index as u64 * 30)).await;
        } else {
            drop(calm.acquire().await);
        }
        let order_no = failures.reserve(app, &activity, buyer).await?;
        let pays = index % 4 == 0;
        if pays {
            failures.pay(app, buyer, &order_no).await;
        }
        Some((buyer, order_no, if pays { "paid" } else { "pending_payment" }))
    });
    let purchases = thread::scope(|scope| {
        scope.spawn(|| {
            let ended = panic::catch_unwind(AssertUnwindSafe(disturb));
            calm.close();
            ended.expect("the disturbance");
        });
        block_in_place(|| {
            Handle::current().block_on(async {
                tokio::select! {
                    purchases = join_all(purchases) => purchases,
                    () = sweep_every_second(app) => unreachable!(),
                }
            })
        })
    });
    eprintln!("requests that failed and were repeated: {failures:?}");

    let sold: Vec<_> = purchases.into_iter().flatten().collect();
    let paid = i64::try_from(sold.iter().filter(|(.., status)| *status == "paid").count()).expect("a number");
    assert_eq!(app.finish_and_count(&activity).await, [0, UNITS - paid, paid]);
    assert_eq!(i64::try_from(sold.len()), Ok(UNITS));
    for (buyer, order_no, status) in sold {
        app.wait_for_status(&order_no, &buyer.ticket, status).await;
    }
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, UNITS);
}

/// Sweeps as the kit's timer does: a doorbell that no writer hears leaves orders queued.
async fn sweep_every_second(app: &TestApp) {
    loop {
        let _ =
            app.http.try_send(Method::POST, "/api/tasks/sweep", app.variables.get("cron_token"), &Value::Null).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Runs steps one after the other, with a pause before each.
fn in_turn(count: usize, pause: Duration, step: impl Fn(usize)) {
    for turn in 0..count {
        thread::sleep(pause);
        step(turn);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_app_processes_killed_in_turn_sell_every_unit_once() {
    let cluster = Cluster::behind_nginx(4, &[]);
    sell_during(&cluster, || in_turn(cluster.len(), SOME_SALES, |turn| cluster.restart(turn))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_goes_on_while_two_apps_are_restarted_one_by_one_and_nginx_is_restarted_and_killed() {
    let cluster = Cluster::behind_nginx(2, &[]);
    eprintln!("two apps restarted:");
    sell_during(&cluster, || in_turn(cluster.len(), BETWEEN_APPS, |turn| cluster.restart_gracefully(turn))).await;
    eprintln!("nginx restarted, then killed:");
    let end = [Process::stop, Process::kill];
    sell_during(&cluster, || in_turn(end.len(), SOME_SALES, |turn| cluster.restart_nginx(end[turn]))).await;
}
