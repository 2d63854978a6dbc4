//! The manifest for Akamai Functions, on this machine's engine: no order writer, no SQLite, a PostgreSQL ledger, and a
//! sweeper that somebody calls. A sale runs all the same (G9).

use std::{fs, time::Duration};

use dev::{akamai, engine::target_directory, manifest::Manifest, postgres::Postgres, root, throwaway::Throwaway};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use support::{TestApp, activity::units};

/// How often somebody calls the sweeper.
const PERIOD: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_runs_to_paid_orders_with_http_postgresql_and_a_sweeper_alone() {
    let root = root::find().expect("the project");
    let whole = fs::read_to_string(root.join("spin.toml")).expect("a manifest");
    fs::write(root.join(akamai::FILE), akamai::manifest(&whole).expect("a manifest")).expect("written");
    let postgres = Postgres::throwaway().expect("PostgreSQL");
    let app = TestApp::started(Throwaway::start_with(&[], |settings| {
        settings.manifest = akamai::FILE.into();
        settings.variables.set_ledger(&postgres.url()).expect("a URL");
    }));
    assert!(!app.with_app(|app| app.output()).contains("Active Channels"), "somebody listens to Redis");
    let (http, token) = (app.http.clone(), app.variables.get("cron_token").to_owned());
    let sweeping = tokio::spawn(async move {
        let mut every = tokio::time::interval(PERIOD);
        loop {
            every.tick().await;
            // Who calls it calls again, whatever it answers.
            let _ = http.try_send(Method::POST, "/api/tasks/sweep", &token, &Value::Null).await;
        }
    });

    let sale = app.sale(json!({"skus": units(10)})).await;
    let buyers = app.buyers(&sale, 30).await;
    let tried = join_all(buyers.iter().map(async |buyer| {
        let answer = app.reserve(&sale, buyer, "a", 1).await;
        (answer.status == 202).then(|| answer.text("order_no"))
    }));
    let orders: Vec<_> = buyers.iter().zip(tried.await).filter_map(|(buyer, order)| Some((buyer, order?))).collect();
    assert_eq!(orders.len(), 10, "{orders:?}");
    let (last, paying) = orders.split_last().expect("orders");
    join_all(paying.iter().map(async |(buyer, order_no)| {
        app.wait_for(order_no, &buyer.ticket, "pending_payment").await;
        app.pay(order_no, &buyer.jwt).await;
        app.wait_for(order_no, &buyer.ticket, "paid").await;
    }))
    .await;
    let (buyer, order_no) = last;
    app.wait_for(order_no, &buyer.ticket, "pending_payment").await;
    app.cancel(order_no, &buyer.jwt).await.is(200);
    sweeping.abort();
    assert_eq!(app.settled(&sale).await, [1, 0, 9]);
    assert_eq!(app.ledger_count(&sale, "paid").await, 9);
    assert!(!app.ledger_file().exists(), "somebody opened SQLite");
}

#[test]
fn no_function_needs_atomics_of_a_key_value_store() {
    let root = root::find().expect("the project");
    let imports = |id: &str, name: &[u8]| {
        let file = format!("wasm32-wasip2/release/{}.wasm", id.replace('-', "_"));
        let wasm = fs::read(target_directory(&root).join(file)).expect("a function");
        wasm.windows(name.len()).any(|part| part == name)
    };
    let ids = Manifest::read(&root).expect("a manifest").components_of("http");
    // The search finds what is there.
    assert!(imports("activity", b"spin:key-value/"));
    for id in ids {
        assert!(!imports(&id, b"wasi:keyvalue/"), "{id} imports wasi:keyvalue");
    }
}
