//! Redis Cluster: sales on several servers, one of which is killed, replaced by its replica, or hands over a slot during a
//! sale (C1, D8, G16, G17; I1, I4).

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::{Value, json};
use support::{Buyer, RedisCluster, Response, TestActivity, TestApp, activity::single_sku, eventually, eventually_is};

const UNITS: i64 = 30;

/// Creates a sale whose keys are on this server.
async fn create_sale(app: &TestApp, cluster: &RedisCluster, node: usize) -> TestActivity {
    app.create_activity_with_id(&cluster.id_on(node), json!({"skus": single_sku(UNITS)})).await
}

/// The numbers of a user's orders, newest first, and what My orders says of sales that it could not read.
async fn list_orders(app: &TestApp, user: &str) -> (Vec<String>, String) {
    let response = app.http.get("/api/orders", &app.sign_in(user)).await.is(200);
    let page = response.json();
    let orders = page["items"].as_array().expect("a list");
    let number = |order: &Value| order["order_no"].as_str().expect("a number").to_owned();
    (orders.iter().map(number).collect(), response.header("x-unread-activities").to_owned())
}

/// Reserves a unit for each buyer, again and again while that is answered by `503`. Returns the numbers of the orders;
/// buyers who come too late have none. Counts the answers.
async fn reserve_for_all(app: &TestApp, sale: &TestActivity, buyers: &[Buyer], answers: &Cell<usize>) -> Vec<String> {
    let reserve = async |buyer| {
        loop {
            let response = app.reserve(sale, buyer, "a", 1).await;
            answers.set(answers.get() + 1);
            match (response.status, &*response.code()) {
                (202, _) => return Some(response.text("order_no")),
                (409, "sold_out") => return None,
                _ => response.is_problem(503, "not_ready"),
            };
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    join_all(buyers.iter().map(reserve)).await.into_iter().flatten().collect()
}

async fn readiness(app: &TestApp) -> Response {
    app.http.get("/readyz", app.variables.get("metrics_token")).await
}

/// How often a server has run scripts since its figures were reset.
fn script_calls(cluster: &RedisCluster, node: usize) -> u64 {
    let figures: String = cluster.query(node, &["INFO", "commandstats"]).expect("figures");
    let scripts = figures.lines().filter_map(|line| {
        let (name, figures) = line.split_once(":calls=")?;
        let calls = figures.split(',').next()?.parse::<u64>().ok()?;
        matches!(name, "cmdstat_eval" | "cmdstat_evalsha").then_some(calls)
    });
    scripts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sale_runs_on_the_server_of_its_keys() {
    const BUYERS: usize = 20;
    let cluster = RedisCluster::start(0).await;
    let app = cluster.start_app().await;
    let sales = join_all([0, 1, 2].map(|node| create_sale(&app, &cluster, node))).await;
    let mut bought = vec![];
    for sale in &sales {
        let buyer = app.create_buyer(sale, "ada").await;
        let order_no = app.place_order(sale, &buyer).await;
        app.pay_by_callback(&order_no, &buyer.jwt).await;
        app.wait_for_status(&order_no, &buyer.ticket, "paid").await;
        bought.insert(0, order_no);
    }
    assert_eq!(list_orders(&app, "ada").await, (bought, String::new()));

    // Only the writers are counted in a key that belongs to no activity.
    let own = cluster.node_of("stampede:writers").expect("a server");
    let buyers = app.create_buyers(&sales[own], BUYERS).await;
    eventually("the scripts of the first orders to end", async || {
        let count = || [0, 1, 2].map(|node| script_calls(&cluster, node));
        let before = count();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if count() == before { Ok(()) } else { Err(format!("{before:?}")) }
    })
    .await;
    for node in 0..3 {
        cluster.query::<()>(node, &["CONFIG", "RESETSTAT"]).expect("reset");
    }
    join_all(buyers.iter().map(|buyer| app.place_order(&sales[own], buyer))).await;
    let calls = [0, 1, 2].map(|node| script_calls(&cluster, node));
    // Instances hand over what they counted, a few times a second.
    let counts = cluster.node_of("stampede:counts").expect("a server");
    for (node, made) in calls.into_iter().enumerate() {
        let is_fine = match node {
            node if node == own => made >= BUYERS as u64,
            node if node == counts => made < BUYERS as u64,
            _ => made == 0,
        };
        assert!(is_fine, "{calls:?}, not only at {own}, and counts at {counts}");
    }
    for (node, sale) in sales.iter().enumerate() {
        let held = if node == own { BUYERS as i64 } else { 0 };
        assert_eq!(app.finish_and_count(sale).await, [UNITS - held - 1, held, 1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_server_is_away_the_other_sales_go_on_and_it_returns_with_its_own() {
    let mut cluster = RedisCluster::start(0).await;
    let app = cluster.start_app().await;
    let sales = join_all([0, 1, 2].map(|node| create_sale(&app, &cluster, node))).await;
    let (mut paying, mut late) = (vec![], vec![]);
    for sale in &sales {
        let buyer = app.create_buyer(sale, "ada").await;
        paying.push((app.place_order(sale, &buyer).await, buyer));
        late.push(app.create_buyer(sale, "bob").await);
    }
    cluster.nodes[2].kill();
    let away = &sales[2];
    app.reserve(away, &late[2], "a", 1).await.is_problem(503, "not_ready");
    app.pay_by_callback(&paying[2].0, &paying[2].1.jwt).await;
    let first = app.place_order(&sales[0], &late[0]).await;
    let second = app.place_order(&sales[1], &late[1]).await;
    let report = app.sweep().await;
    assert_eq!(report["stuck"], json!([away.id]), "{report}");
    for sale in &sales[..2] {
        assert_eq!(app.count_orders_with_status(sale, "pending_payment").await, 2, "{}", sale.id);
    }
    assert_eq!(list_orders(&app, "bob").await, (vec![second, first], away.id.clone()));
    let fault = readiness(&app).await.is_problem(503, "not_ready").json()["checks"]["redis"].to_string();
    assert!(fault.contains(&format!("127.0.0.1:{}", cluster.nodes[2].port())), "{fault}");

    let start = Instant::now();
    cluster.nodes[2].restart().expect("redis-server");
    eventually_is("the sale to go on", 202, async || app.reserve(away, &late[2], "a", 1).await).await;
    println!("a sale goes on {:.1} s after the start of its server", start.elapsed().as_secs_f64());
    for (sale, [held, sold]) in sales.iter().zip([[2, 0], [2, 0], [1, 1]]) {
        assert_eq!(app.finish_and_count(sale).await, [UNITS - held - sold, held, sold], "{}", sale.id);
    }
    eventually_is("the app to be ready", 200, async || readiness(&app).await).await;
}

/// Redis refuses every script of a slot that moves, before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_during_its_sale_and_every_unit_is_sold_once() {
    const GROUP: usize = 8;
    let cluster = RedisCluster::start(0).await;
    let app = cluster.start_app().await;
    let sale = create_sale(&app, &cluster, 0).await;
    let buyers = app.create_buyers(&sale, 3 * GROUP).await;
    let answers = Cell::new(0);
    let reserve = |group: usize| reserve_for_all(&app, &sale, &buyers[group * GROUP..][..GROUP], &answers);
    let mut accepted = reserve(0).await;
    let slot_move = cluster.begin_move(&sale.id, 1);
    let handing_over = async {
        loop {
            let before = answers.get();
            eventually("an answer during the move", async || if answers.get() > before { Ok(()) } else { Err(before) })
                .await;
            let units = cluster.units(&sale.id);
            assert!(units.iter().sum::<i64>() == UNITS && units[0] >= 0, "{units:?}");
            if !slot_move.move_keys() {
                break slot_move.end();
            }
        }
    };
    let (during, ()) = futures::join!(reserve(1), handing_over);
    assert!(answers.get() > 2 * GROUP, "no reservation was refused during the move");
    assert_eq!(cluster.node_of(&sale.id), Some(1));
    accepted.extend(during);
    accepted.extend(reserve(2).await);
    accepted.sort_unstable();
    accepted.dedup();
    assert_eq!(accepted.len(), buyers.len());
    let held = buyers.len() as i64;
    assert_eq!(app.finish_and_count(&sale).await, [UNITS - held, held, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_is_replaced_by_its_replica_and_nothing_is_oversold() {
    const EARLY: usize = 20;
    let mut cluster = RedisCluster::start(1).await;
    let app = cluster.start_app().await;
    let sale = create_sale(&app, &cluster, 1).await;
    let buyers = app.create_buyers(&sale, UNITS as usize + 5).await;
    join_all(buyers[..EARLY].iter().map(|buyer| app.place_order(&sale, buyer))).await;
    eventually("the replica to have every order", async || match cluster.confirm_writes(1, &sale.id) {
        0 => Err("it has not confirmed them"),
        _ => Ok(()),
    })
    .await;
    let start = Instant::now();
    cluster.nodes[1].kill();
    let late = reserve_for_all(&app, &sale, &buyers[EARLY..], &Cell::new(0)).await;
    println!("the replica has sold the rest {:.1} s after its primary was killed", start.elapsed().as_secs_f64());
    assert_eq!(late.len(), UNITS as usize - EARLY);
    assert!(cluster.node_of(&sale.id) >= Some(3), "no replica was promoted");
    assert_eq!(app.finish_and_count(&sale).await, [0, UNITS, 0]);
    eventually_is("the app to be ready", 200, async || readiness(&app).await).await;
}
