//! The primary of the PostgreSQL kit (`deploy/patroni`) dies, hangs or hands over in the middle of a sale (D8, G5; I2, I4, I6).
//!
//! Buyers reserve and pay before, during and after it; the provider repeats a callback until it is accepted. Afterwards
//! every accepted order is in the ledger, and every payment is a paid order, without an operator.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use fastrand::Rng;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, Patroni, TestActivity, TestApp, activity::single_sku, eventually};
use tokio_postgres::NoTls;

/// Buyers who come before the failover, who come during it, and who come after it.
const GROUP: usize = 80;
/// Fewer than buyers.
const UNITS: i64 = 3 * GROUP as i64 - 20;
/// So many payments are made before the failover.
const PAID_BEFORE: usize = 10;
/// One buyer of so many does not pay.
const UNPAID: usize = 5;

/// How the app reaches the primary.
enum Route {
    HaProxy,
    /// The driver tries both servers.
    BothHosts,
}

struct Sale {
    app: TestApp,
    activity: TestActivity,
    buyers: Vec<Buyer>,
    /// Payments whose callbacks were accepted.
    paid: AtomicUsize,
    ended: AtomicBool,
}

/// An accepted order. The provider confirmed its payment if `is_paid`.
struct Order {
    order_no: String,
    is_paid: bool,
}

impl Sale {
    async fn open(patroni: &Patroni, route: Route) -> Self {
        let app = TestApp::with_variables(|variables| match route {
            Route::HaProxy => variables.set_ledger(&patroni.url()).expect("a URL"),
            Route::BothHosts => {
                variables.set("ledger", patroni.multi_host_url());
                variables.set("ledger_host", patroni.network());
            }
        });
        let activity = app.create_activity(json!({"skus": single_sku(UNITS)})).await;
        let buyers = app.create_buyers(&activity, 3 * GROUP).await;
        Self { app, activity, buyers, paid: AtomicUsize::new(0), ended: AtomicBool::new(false) }
    }

    /// Lets a group of buyers buy, all within two seconds.
    async fn serve(&self, group: usize) -> Vec<Order> {
        let mut rng = Rng::with_seed(group as u64);
        let buyers = (group * GROUP..(group + 1) * GROUP).map(|index| self.buy(index, rng.u64(..2_000)));
        join_all(buyers).await.into_iter().flatten().collect()
    }

    async fn buy(&self, index: usize, delay_ms: u64) -> Option<Order> {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        let buyer = &self.buyers[index];
        let response = self.app.reserve(&self.activity, buyer, "a", 1).await;
        if response.status == 409 {
            response.is_problem(409, "sold_out");
            return None;
        }
        let order_no = response.is(202).text("order_no");
        let is_paid = !index.is_multiple_of(UNPAID);
        if is_paid {
            self.pay(&order_no, buyer).await;
        }
        Some(Order { order_no, is_paid })
    }

    /// Repeats the checkout as a buyer does, and the callback as a provider does.
    async fn pay(&self, order_no: &str, buyer: &Buyer) {
        let session = eventually("the checkout", async || {
            let response = self.app.checkout(order_no, &buyer.jwt).await;
            // The order is not written yet, or the ledger is away.
            assert!(matches!(response.status, 200 | 409 | 503), "{response:?}");
            if response.status == 200 { Ok(response.text("checkout_url")) } else { Err(response.body) }
        })
        .await;
        let body =
            TestApp::callback_body("payment.succeeded", order_no, session.rsplit('/').next().unwrap_or_default());
        eventually("the callback to be accepted", async || {
            let response = self.app.send_callback(&format!("evt-{order_no}"), &body).await;
            assert!(matches!(response.status, 204 | 503), "{response:?}");
            if response.status == 204 { Ok(()) } else { Err(response.body) }
        })
        .await;
        self.paid.fetch_add(1, Ordering::SeqCst);
    }

    async fn sweep_until_ended(&self) {
        while !self.ended.load(Ordering::SeqCst) {
            self.app.http.post("/api/tasks/sweep", self.app.variables.get("cron_token"), &Value::Null).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The sale's orders of `orders` that the ledger has, if they meet a condition.
    async fn missing(&self, orders: impl Iterator<Item = &Order>, condition: &str) -> Vec<String> {
        let query =
            format!("SELECT order_no FROM orders WHERE activity = '{}' AND status IN ({condition})", self.activity.id);
        let found = self.app.query_ledger_texts(&query).await;
        orders.map(|order| order.order_no.clone()).filter(|order_no| !found.contains(order_no)).collect()
    }

    async fn assert_nothing_is_lost(&self, orders: &[Order]) {
        let [left, ..] = self.app.finish_and_count(&self.activity).await;
        assert_eq!((left, orders.len()), (0, usize::try_from(UNITS).expect("a number")));
        let paid = "'paid', 'refunding', 'refunded'";
        let unwritten = self.missing(orders.iter(), &format!("'pending_payment', {paid}")).await;
        assert!(unwritten.is_empty(), "accepted, but not in the ledger: {unwritten:?}");
        let unpaid = self.missing(orders.iter().filter(|order| order.is_paid), paid).await;
        assert!(unpaid.is_empty(), "the provider confirmed the payments of {unpaid:?}");
        let letters = self.app.call_admin(Method::GET, "/dead-letters", &Value::Null).await.is(200).json();
        assert_eq!(letters["items"], json!([]), "dead letters");
    }
}

/// Writes through `url`; returns the port of the server that has written.
async fn write(url: &str) -> Option<i32> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE IF NOT EXISTS drill (at timestamptz)").await.ok()?;
    let written = "INSERT INTO drill VALUES (now()) RETURNING inet_server_port()";
    client.query_one(written, &[]).await.ok().map(|row| row.get(0))
}

/// Writes through `url` until another server than that at `old_port` has written. Returns how long nothing was written.
async fn time_without_writes(url: &str, old_port: i32) -> Duration {
    let mut last = Instant::now();
    eventually("a write on another server", async || {
        let port = tokio::time::timeout(Duration::from_secs(2), write(url)).await.ok().flatten();
        match port {
            Some(port) if port != old_port => return Ok(last.elapsed()),
            Some(_) => last = Instant::now(),
            None => {}
        }
        Err(format!("the server at port {port:?} has written"))
    })
    .await
}

/// Runs a sale during which `fail_over` replaces the primary. Returns the cluster and the old primary.
async fn drill(name: &str, route: Route, fail_over: fn(&mut Patroni, usize)) -> (Patroni, usize) {
    let mut patroni = Patroni::start().unwrap_or_else(|error| panic!("{error:#}"));
    let primary = patroni.primary().expect("a primary");
    let sale = Sale::open(&patroni, route).await;
    let events = async {
        eventually("payments", async || {
            let paid = sale.paid.load(Ordering::SeqCst);
            if paid >= PAID_BEFORE { Ok(()) } else { Err(paid) }
        })
        .await;
        let url = sale.app.variables.get("ledger");
        let old_port = write(url).await.expect("a write");
        let failed_over = tokio::task::spawn_blocking(move || {
            fail_over(&mut patroni, primary);
            patroni
        });
        let (during, without_writes, patroni) =
            futures::join!(sale.serve(1), time_without_writes(url, old_port), failed_over);
        eprintln!("{name}: the ledger was not written for {:.1} s", without_writes.as_secs_f64());
        (during, sale.serve(2).await, patroni.expect("a failover"))
    };
    let sales = async {
        let (before, (during, after, patroni)) = futures::join!(sale.serve(0), events);
        assert!(after.iter().any(|order| order.is_paid), "nobody bought after the failover");
        let orders: Vec<_> = before.into_iter().chain(during).chain(after).collect();
        sale.assert_nothing_is_lost(&orders).await;
        sale.ended.store(true, Ordering::SeqCst);
        patroni
    };
    let (patroni, ()) = futures::join!(sales, sale.sweep_until_ended());
    assert_eq!(patroni.primary(), Some(1 - primary));
    (patroni, primary)
}

/// The old primary becomes the standby without an operator.
fn assert_comes_back((mut patroni, old_primary): (Patroni, usize)) {
    patroni.bring_back(old_primary).and_then(|()| patroni.wait_until_synchronous()).expect("a synchronous standby");
    assert_eq!(patroni.primary(), Some(1 - old_primary));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_dies_in_a_sale_takes_no_order_and_no_payment_with_it() {
    drill("kill -9 of the primary", Route::HaProxy, Patroni::kill).await;
}

#[ignore = "a sale on a cluster of its own: --long"]
#[tokio::test(flavor = "multi_thread")]
async fn a_switchover_in_a_sale_loses_no_order_and_no_payment() {
    let switch_over = |patroni: &mut Patroni, _| patroni.switch_over().expect("a switchover");
    assert_comes_back(drill("switchover", Route::HaProxy, switch_over).await);
}

#[ignore = "a sale on a cluster of its own: --long"]
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_in_a_sale_is_replaced_and_comes_back_as_the_standby() {
    assert_comes_back(drill("SIGSTOP of the primary", Route::HaProxy, Patroni::freeze).await);
}

#[ignore = "a sale on a cluster of its own: --long"]
#[tokio::test(flavor = "multi_thread")]
async fn a_url_with_both_servers_leads_to_the_new_primary() {
    let name = "kill -9 of the primary, both servers in the URL";
    assert_comes_back(drill(name, Route::BothHosts, Patroni::kill).await);
}
