//! Two app processes on one Redis and one PostgreSQL, killed in turn.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use dev::{
    app::{App, Settings},
    ports,
    postgres::Postgres,
    scratch::Scratch,
    throwaway::Throwaway,
};
use futures::future::join_all;
use reqwest::Method;
use serde_json::json;

use support::{Http, TestApp, activity::units};

const BUYERS: usize = 300;
const UNITS: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn two_apps_killed_in_turn_sell_every_unit_once() {
    let postgres = Postgres::throwaway().expect("PostgreSQL");
    let mut app = TestApp::started(Throwaway::start_with(&[], |settings| {
        settings.variables.set_ledger(&postgres.url()).expect("a URL");
    }));
    let scratch = Scratch::new().expect("a directory");
    let settings = app.with_app(|app| app.settings().clone());
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free().expect("a port")));
    let twin = Settings { directory: scratch.path().to_owned(), listen, ..settings };
    let mut twin = App::start(twin).expect("a second app");
    twin.wait_until_ready().expect("ready");
    let other = Http::new(twin.url()).while_dying();
    app.http = app.http.while_dying();

    let sale = app.sale(json!({"skus": units(UNITS)})).await;
    let buyers = app.buyers(&sale, BUYERS).await;
    let path = format!("/api/activities/{}/orders", sale.id);
    let deaths = async {
        for turn in 0..4 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            tokio::task::block_in_place(|| match turn % 2 {
                0 => app.restart(),
                _ => twin.restart().and_then(|()| twin.wait_until_ready()).expect("it comes back"),
            });
        }
    };
    let rush = buyers.iter().enumerate().map(async |(at, buyer)| {
        tokio::time::sleep(Duration::from_millis(at as u64 * 8)).await;
        let body = TestApp::reservation(&sale, buyer, "a", 1);
        // Each try goes to the other app.
        for turn in 0.. {
            let http = if (at + turn) % 2 == 0 { &app.http } else { &other };
            match http.try_send(Method::POST, &path, "", &body).await {
                Ok(answer) if answer.status == 202 => return Some(answer.text("order_no")),
                Ok(answer) if answer.status == 409 => return None,
                Ok(answer) => assert!(answer.status == 503 || answer.is_an_engines_last(), "{answer:?}"),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    });
    let (told, ()) = futures::join!(join_all(rush), deaths);

    assert_eq!(app.settled(&sale).await, [0, UNITS, 0]);
    assert_eq!(told.iter().flatten().count(), usize::try_from(UNITS).expect("a number"));
    for (buyer, order_no) in buyers.iter().zip(&told) {
        if let Some(order_no) = order_no {
            app.wait_for(order_no, &buyer.ticket, "pending_payment").await;
        }
    }
    assert_eq!(app.ledger_orders(&sale.id, "1 = 1").await, UNITS);
}
