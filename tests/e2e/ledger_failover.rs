//! PostgreSQL fails over to a standby during a sale (D8, G5; I4, I6).

use dev::{postgres::Postgres, proxy::Proxy};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, TestActivity, TestApp, activity::single_sku, eventually};
use tokio_postgres::{Client, NoTls};

/// Buyers who pay before the failover, who try to pay during it, and who reserve during it.
const GROUP: usize = 15;
const UNITS: i64 = 3 * GROUP as i64 + 5;

async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.expect("PostgreSQL");
    tokio::spawn(connection);
    client
}

/// A sale on a PostgreSQL that has a standby. The app reaches either through a proxy, as through a virtual address.
struct Sale {
    primary: Postgres,
    standby: Postgres,
    proxy: Proxy,
    app: TestApp,
    activity: TestActivity,
    buyers: Vec<Buyer>,
}

impl Sale {
    async fn start() -> Self {
        let primary = Postgres::ephemeral().expect("PostgreSQL");
        let standby = primary.standby().expect("a standby");
        let proxy = Proxy::start(primary.port()).expect("a proxy");
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port());
        let app = TestApp::with_variables(|variables| variables.set_ledger(&url).expect("a URL"));
        let activity = app.create_activity(json!({"skus": single_sku(UNITS)})).await;
        let buyers = app.create_buyers(&activity, 3 * GROUP).await;
        Self { primary, standby, proxy, app, activity, buyers }
    }

    /// Places the orders of a group of buyers.
    async fn place_orders(&self, group: usize) -> Vec<(&Buyer, String)> {
        let buyers = &self.buyers[group * GROUP..][..GROUP];
        join_all(buyers.iter().map(async |buyer| (buyer, self.app.place_order(&self.activity, buyer).await))).await
    }

    async fn count(&self, status: &str) -> i64 {
        self.app.count_orders_with_status(&self.activity, status).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_a_synchronous_standby_loses_no_order_and_no_payment() {
    let mut sale = Sale::start().await;
    let client = connect(&sale.primary).await;
    client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.expect("a setting");
    client.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    eventually("the standby to be synchronous", async || {
        let states = client.query("SELECT sync_state FROM pg_stat_replication", &[]).await.expect("a query");
        let states: Vec<String> = states.iter().map(|row| row.get(0)).collect();
        if states == ["sync"] { Ok(()) } else { Err(states.join(", ")) }
    })
    .await;
    for (buyer, order_no) in sale.place_orders(0).await {
        sale.app.pay_by_callback(&order_no, &buyer.jwt).await;
    }
    let mut callbacks = vec![];
    for (buyer, order_no) in sale.place_orders(1).await {
        let session = sale.app.open_session(&order_no, &buyer.jwt).await;
        let body = TestApp::callback_body("payment.succeeded", &order_no, &session);
        callbacks.push((format!("evt-{order_no}"), body));
    }

    sale.primary.crash();
    let send_all = async |sale: &Sale| {
        join_all(callbacks.iter().map(async |(id, body)| sale.app.send_callback(id, body).await)).await
    };
    let mut refused = send_all(&sale).await;
    sale.proxy.retarget(sale.standby.port());
    // The standby reads, and refuses to write.
    refused.extend(send_all(&sale).await);
    for response in refused {
        response.is_problem(503, "not_ready");
    }
    let mut accepted = vec![];
    for buyer in &sale.buyers[2 * GROUP..] {
        let order_no = sale.app.reserve(&sale.activity, buyer, "a", 1).await.is(202).text("order_no");
        accepted.push((order_no, buyer));
    }
    sale.app.http.post("/api/tasks/sweep", sale.app.variables.get("cron_token"), &Value::Null).await;
    for (order_no, buyer) in &accepted {
        assert_eq!(sale.app.get_order(order_no, &buyer.ticket).await.text("status"), "queued");
    }

    connect(&sale.standby).await.batch_execute("SELECT pg_promote()").await.expect("promoted");
    eventually("every callback to be accepted", async || {
        let waiting = send_all(&sale).await.into_iter().filter(|response| response.status != 204).count();
        if waiting == 0 { Ok(()) } else { Err(waiting) }
    })
    .await;
    let group = GROUP as i64;
    assert_eq!(sale.app.finish_and_count(&sale.activity).await, [UNITS - 3 * group, group, 2 * group]);
    assert_eq!((sale.count("paid").await, sale.count("pending_payment").await), (2 * group, group));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_a_standby_that_lags_is_made_good_by_a_rebuild() {
    let mut sale = Sale::start().await;
    for (buyer, order_no) in sale.place_orders(0).await {
        sale.app.pay_by_callback(&order_no, &buyer.jwt).await;
    }
    sale.app.finish_and_count(&sale.activity).await;
    // From here on the standby receives nothing.
    let standby = connect(&sale.standby).await;
    eventually("the standby to have the orders", async || {
        let count = "SELECT COUNT(*) FROM orders WHERE status = 'paid'";
        let paid: i64 = standby.query_one(count, &[]).await.expect("a query").get(0);
        if paid == GROUP as i64 { Ok(()) } else { Err(paid) }
    })
    .await;
    standby.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.expect("a setting");
    standby.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    let receivers = "SELECT COUNT(*) FROM pg_stat_wal_receiver";
    eventually("the standby to be cut off", async || {
        let receivers: i64 = standby.query_one(receivers, &[]).await.expect("a query").get(0);
        if receivers == 0 { Ok(()) } else { Err(receivers) }
    })
    .await;
    for (buyer, order_no) in sale.place_orders(1).await {
        sale.app.pay_by_callback(&order_no, &buyer.jwt).await;
        // Redis, which hears of it after the answer, has what the standby lacks.
        sale.app.wait_for_status(&order_no, &buyer.ticket, "paid").await;
    }
    sale.place_orders(2).await;

    sale.primary.crash();
    sale.proxy.retarget(sale.standby.port());
    standby.batch_execute("SELECT pg_promote()").await.expect("promoted");
    assert_eq!(sale.count("paid").await, GROUP as i64, "the standby has orders that it never received");
    for action in ["pause", "rebuild", "resume"] {
        eventually(action, async || {
            let path = format!("/activities/{}/{action}", sale.activity.id);
            let response = sale.app.call_admin(Method::POST, &path, &Value::Null).await;
            if response.status == 200 { Ok(()) } else { Err(response.body) }
        })
        .await;
    }
    let group = GROUP as i64;
    assert_eq!(sale.app.finish_and_count(&sale.activity).await, [UNITS - 3 * group, group, 2 * group]);
    assert_eq!((sale.count("paid").await, sale.count("pending_payment").await), (2 * group, group));
}
