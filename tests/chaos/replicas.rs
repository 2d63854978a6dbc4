//! Runs two apps on one Redis and one PostgreSQL and kills them in turn.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use dev::{
    app::{App, Settings},
    ports,
    postgres::Postgres,
    temp_dir::TempDir,
    test_stack::TestStack,
};
use futures::future::join_all;
use reqwest::Method;
use serde_json::json;

use support::{HttpClient, TestApp, activity::single_sku};

const BUYERS: usize = 300;
const UNITS: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn two_apps_killed_in_turn_sell_every_unit_once() {
    let postgres = Postgres::ephemeral().expect("PostgreSQL");
    let mut app = TestApp::from_stack(TestStack::start_with(&[], |settings| {
        settings.variables.set_ledger(&postgres.url()).expect("a URL");
    }));
    let temp_dir = TempDir::new().expect("a directory");
    let settings = app.with_app(|app| app.settings().clone());
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::pick_unused().expect("a port")));
    let second_app = Settings { directory: temp_dir.path().to_owned(), listen, ..settings };
    let mut second_app = App::start(second_app).expect("a second app");
    second_app.wait_until_ready().expect("ready");
    let second_http = HttpClient::new(second_app.url()).tolerating_shutdown();
    app.http = app.http.tolerating_shutdown();

    let activity = app.create_activity(json!({"skus": single_sku(UNITS)})).await;
    let buyers = app.create_buyers(&activity, BUYERS).await;
    let path = format!("/api/activities/{}/orders", activity.id);
    let restarts = async {
        for turn in 0..4 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            tokio::task::block_in_place(|| match turn % 2 {
                0 => app.restart(),
                _ => second_app.restart().and_then(|()| second_app.wait_until_ready()).expect("it comes back"),
            });
        }
    };
    let purchases = buyers.iter().enumerate().map(async |(index, buyer)| {
        tokio::time::sleep(Duration::from_millis(index as u64 * 8)).await;
        let body = TestApp::reservation_body(&activity, buyer, "a", 1);
        // Each retry goes to the other app.
        for attempt in 0.. {
            let http = if (index + attempt) % 2 == 0 { &app.http } else { &second_http };
            match http.try_send(Method::POST, &path, "", &body).await {
                Ok(response) if response.status == 202 => return Some(response.text("order_no")),
                Ok(response) if response.status == 409 => return None,
                Ok(response) => assert!(response.status == 503 || response.is_engine_shutdown(), "{response:?}"),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    });
    let (order_nos, ()) = futures::join!(join_all(purchases), restarts);

    assert_eq!(app.settle_and_count(&activity).await, [0, UNITS, 0]);
    assert_eq!(order_nos.iter().flatten().count(), usize::try_from(UNITS).expect("a number"));
    for (buyer, order_no) in buyers.iter().zip(&order_nos) {
        if let Some(order_no) = order_no {
            app.wait_for_status(order_no, &buyer.ticket, "pending_payment").await;
        }
    }
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, UNITS);
}
