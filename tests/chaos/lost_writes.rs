//! Compares Redis with the ledger order by order, and lets sweeps alone bring Redis back.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::Value;
use support::{TestActivity, TestApp, eventually};

/// Orders by number: status, and whether they hold units.
type Orders = BTreeMap<String, (String, bool)>;

async fn load_redis_orders(app: &TestApp, activity: &TestActivity) -> Orders {
    let mut redis = app.connect_redis().await;
    let prefix = format!("{{{}}}:order:", activity.id);
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}*")).query_async(&mut redis).await.expect("keys");
    let mut pipeline = redis::pipe();
    for key in &keys {
        pipeline.cmd("HMGET").arg(key).arg("status").arg("live");
    }
    let records: Vec<(Option<String>, Option<String>)> = pipeline.query_async(&mut redis).await.expect("records");
    keys.iter()
        .map(|key| format!("{}.{}", activity.id, key.trim_start_matches(&prefix)))
        .zip(records.into_iter().map(|(status, live)| {
            let status = status.unwrap_or_default();
            let holds_units = status == "pending_payment" || live.as_deref() == Some("1");
            (status, holds_units)
        }))
        .collect()
}

async fn load_ledger_orders(app: &TestApp, activity: &TestActivity) -> Orders {
    let query =
        format!("SELECT order_no || ' ' || status || ' ' || live FROM orders WHERE activity = '{}'", activity.id);
    let rows = app.query_ledger_texts(&query).await;
    let parse = |row: &String| {
        let [order_no, status, live] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
        (order_no.to_owned(), (status.to_owned(), live == "1"))
    };
    rows.iter().map(parse).collect()
}

/// Describes every order whose state in Redis is not that of the ledger. Queued orders and dead letters are not in the
/// ledger, and Redis forgets orders that hold no units.
fn differences(redis: &Orders, ledger: &Orders) -> Vec<String> {
    let order_numbers: BTreeSet<_> = redis.keys().chain(ledger.keys()).collect();
    let differs = |order_no: &&&String| match (redis.get(**order_no), ledger.get(**order_no)) {
        (Some((status, _)), None) => !matches!(&**status, "queued" | "failed"),
        (None, Some((_, live))) => *live,
        (redis, ledger) => redis != ledger,
    };
    let describe =
        |order_no: &String| format!("{order_no}: Redis {:?}, ledger {:?}", redis.get(order_no), ledger.get(order_no));
    order_numbers.iter().filter(differs).map(|order_no| describe(order_no)).collect()
}

/// Units that wait for payment and units sold; every order of these tests has one unit.
fn count(orders: &Orders) -> [i64; 2] {
    let live = |is_pending: bool| {
        let counts = |(status, live): &&(String, bool)| {
            *live && status != "queued" && (status == "pending_payment") == is_pending
        };
        i64::try_from(orders.values().filter(counts).count()).expect("a count")
    };
    [live(true), live(false)]
}

/// Asserts that the audit reports exactly the units by which the orders in Redis and in the ledger differ, while no
/// sweep runs. Returns the orders that differ.
pub async fn assert_audit_reports_differences(app: &TestApp, activity: &TestActivity) -> Vec<String> {
    let path = format!("/activities/{}/audit", activity.id);
    // Order writers may still be at work, and a store may just have started.
    eventually("the audit to report the differences", async || {
        let (redis, ledger) = (load_redis_orders(app, activity).await, load_ledger_orders(app, activity).await);
        let response = app.call_admin(Method::GET, &path, &Value::Null).await;
        if response.status != 200 {
            return Err(response.body);
        }
        let sku = response.json()["skus"][0].clone();
        let reported = ["pending_drift", "sold_drift"].map(|name| sku[name].as_i64().expect(name));
        let ([redis_pending, redis_sold], [pending, sold]) = (count(&redis), count(&ledger));
        if reported == [redis_pending - pending, redis_sold - sold] {
            return Ok(differences(&redis, &ledger));
        }
        Err(format!("{reported:?}, orders in Redis {redis_pending} + {redis_sold}, ledger {pending} + {sold}: {sku}"))
    })
    .await
}

/// Sweeps until the ledger has no unconfirmed change, then asserts that Redis has every order as the ledger has it.
pub async fn assert_sweeps_restore(app: &TestApp, activity: &TestActivity) {
    eventually("sweeps to bring Redis back", async || {
        let swept = app.http.post("/api/tasks/sweep", app.variables.get("cron_token"), &Value::Null).await;
        let unconfirmed = app.count_orders(&activity.id, "unsynced_since > 0").await;
        let (redis, ledger) = (load_redis_orders(app, activity).await, load_ledger_orders(app, activity).await);
        let queued = redis.values().filter(|(status, _)| status == "queued").count();
        let different = differences(&redis, &ledger);
        let path = format!("/activities/{}/audit", activity.id);
        let audit = app.call_admin(Method::GET, &path, &Value::Null).await;
        if audit.status != 200 {
            return Err(audit.body);
        }
        let sku = audit.json()["skus"][0]["redis"].clone();
        // Redis holds no unit for an order that the ledger does not have.
        let counted = audit.json()["queue"] == 0 && sku["held"] == sku["pending"];
        if counted && swept.status == 200 && unconfirmed == 0 && queued == 0 && different.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        Err(format!("{unconfirmed} unconfirmed, {queued} queued, {different:#?}; {}; {}", audit.body, swept.body))
    })
    .await;
}
