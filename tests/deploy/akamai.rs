//! Runs the manifest for Akamai Functions on the engine of the tests (G9).
//!
//! There is no order writer and no SQLite: a PostgreSQL ledger and a sweeper that cron calls are enough.

use std::{fs, time::Duration};

use dev::{akamai, engine::target_directory, manifest::Manifest, postgres::Postgres, root};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use support::{TestApp, activity::single_sku, payments::use_payment_service};

/// How often the test calls the sweeper, in the role of cron.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_paid_with_only_http_postgresql_and_a_sweeper() {
    let root = root::find().expect("the project");
    let spin_manifest = fs::read_to_string(root.join("spin.toml")).expect("a manifest");
    fs::write(root.join(akamai::MANIFEST_FILE), akamai::manifest(&spin_manifest).expect("a manifest"))
        .expect("written");
    let postgres = Postgres::ephemeral().expect("PostgreSQL");
    let mut calls = None;
    let app = TestApp::with_settings(&[], |settings| {
        settings.manifest = akamai::MANIFEST_FILE.into();
        settings.variables.set_ledger(&postgres.url()).expect("a URL");
        calls = Some(use_payment_service(&mut settings.variables));
    });
    assert!(!app.with_app(|app| app.output()).contains("Active Channels"), "a component listens to a Redis channel");
    let (http, token) = (app.http.clone(), app.variables.get("cron_token").to_owned());
    let sweeper = tokio::spawn(async move {
        let mut interval = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            interval.tick().await;
            // cron ignores the response and calls again.
            let _ = http.try_send(Method::POST, "/api/tasks/sweep", &token, &Value::Null).await;
        }
    });

    let activity = app.create_activity(json!({"skus": single_sku(10)})).await;
    let buyers = app.create_buyers(&activity, 30).await;
    let reservations = join_all(buyers.iter().map(async |buyer| {
        let response = app.reserve(&activity, buyer, "a", 1).await;
        (response.status == 202).then(|| response.text("order_no"))
    }));
    let orders: Vec<_> =
        buyers.iter().zip(reservations.await).filter_map(|(buyer, order)| Some((buyer, order?))).collect();
    assert_eq!(orders.len(), 10, "{orders:?}");
    let (last, paying) = orders.split_last().expect("orders");
    join_all(paying.iter().map(async |(buyer, order_no)| {
        app.wait_for_status(order_no, &buyer.ticket, "pending_payment").await;
        app.pay_by_callback(order_no, &buyer.jwt).await;
        app.wait_for_status(order_no, &buyer.ticket, "paid").await;
    }))
    .await;
    let (buyer, order_no) = last;
    app.wait_for_status(order_no, &buyer.ticket, "pending_payment").await;
    app.cancel(order_no, &buyer.jwt).await.is(200);
    sweeper.abort();
    assert_eq!(app.finish_and_count(&activity).await, [1, 0, 9]);
    assert_eq!(app.count_orders_with_status(&activity, "paid").await, 9);
    let calls = calls.expect("a service").try_iter().filter(|call| call["type"] == "session.open").count();
    assert_eq!(calls, 9);
    assert!(!app.ledger_file().exists(), "a component opened the SQLite ledger");
}

#[test]
fn no_function_imports_key_value_atomics() {
    let root = root::find().expect("the project");
    let imports = |id: &str, name: &[u8]| {
        let file = format!("wasm32-wasip2/release/{}.wasm", id.replace('-', "_"));
        let wasm = fs::read(target_directory(&root).join(file)).expect("a function");
        wasm.windows(name.len()).any(|part| part == name)
    };
    let ids = Manifest::read(&root).expect("a manifest").components_for("http");
    // Check the search itself with an import that exists.
    assert!(imports("activity", b"spin:key-value/"));
    for id in ids {
        assert!(!imports(&id, b"wasi:keyvalue/"), "{id} imports wasi:keyvalue");
    }
}
