//! The app's clock jumps by an hour while a sale runs: what is decided in Redis uses Redis's clock, what is not known to be
//! fresh is asked again, and a ticket that looks old is refused and not lost.

use std::{fs, path::PathBuf};

use dev::{scratch::Scratch, throwaway::Throwaway};
use serde_json::json;
use time::OffsetDateTime;

use support::{Buyer, Claims, Sale, TestApp, activity::units, eventually};

/// The library that lies about the time: Debian's package `libfaketime`.
fn library() -> PathBuf {
    let places = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let found = places.iter().map(|place| PathBuf::from(place).join("libfaketimeMT.so.1")).find(|path| path.is_file());
    found.expect("libfaketime: scripts/install faketime")
}

/// Somebody with a token that is good by any of the clocks.
async fn buyer(app: &TestApp, sale: &Sale, user: &str) -> Buyer {
    let until = OffsetDateTime::now_utc().unix_timestamp() + 4 * 3_600;
    let jwt = Claims::of(user, &app.variables).with("exp", json!(until)).sign(&app.variables);
    let ticket = eventually("a ticket", async || {
        let answer = app.ticket(&sale.id, &jwt).await;
        if answer.status == 201 { Ok(answer.text("ticket")) } else { Err(answer.body) }
    })
    .await;
    Buyer { user: user.to_owned(), jwt, ticket }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_an_hour_and_back_expires_nothing_early_and_sells_on() {
    let scratch = Scratch::new().expect("a directory");
    let clock = scratch.path().join("clock");
    let jump = |by: &str| fs::write(&clock, format!("{by}\n")).expect("the clock");
    jump("+0");
    let app = TestApp::started(Throwaway::start_with(&[], |settings| {
        for (name, value) in [
            ("LD_PRELOAD", library().to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", clock.to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ] {
            settings.environment.push((name.to_owned(), value));
        }
    }));
    let sale = app.sale(json!({"skus": units(10), "pay_timeout_seconds": 600})).await;
    let (mut orders, mut refused) = (vec![], vec![]);
    for (at, by) in ["+0", "+3600", "-3600", "+0"].into_iter().enumerate() {
        jump(by);
        let buyer = buyer(&app, &sale, &format!("buyer-{at}")).await;
        let answer = eventually("the jump to be felt", async || {
            let answer = app.reserve(&sale, &buyer, "a", 1).await;
            // A ticket is good for half an hour: an hour ahead, every one of them looks old, and nothing is sold.
            let expected = if by == "+3600" { 401 } else { 202 };
            if answer.status == expected { Ok(answer) } else { Err(answer.body) }
        })
        .await;
        match answer.status {
            202 => orders.push((answer.text("order_no"), buyer)),
            _ => refused.push(buyer),
        }
        app.sweep().await;
        for (order_no, buyer) in &orders {
            let order = app.wait_for(order_no, &buyer.jwt, "pending_payment").await;
            let pay_by = order["pay_by"].as_str().expect("pay_by");
            let pay_by = OffsetDateTime::parse(pay_by, &time::format_description::well_known::Rfc3339).expect("a time");
            let ahead = (pay_by - OffsetDateTime::now_utc()).whole_seconds();
            assert!((1..=600).contains(&ahead), "with the clock at {by}: {order}");
            // A ticket replays its order or is refused; it never makes another one.
            let again = app.reserve(&sale, buyer, "a", 1).await;
            match again.status {
                202 => assert_eq!(again.text("order_no"), *order_no),
                _ => drop(again.is_problem(401, "ticket_invalid")),
            }
        }
    }
    // The clock is right again: the ticket that looked old is good.
    assert_eq!(refused.len(), 1);
    for buyer in &refused {
        app.reserve(&sale, buyer, "a", 1).await.is(202);
    }
    assert_eq!(app.settled(&sale).await, [6, 4, 0]);
}
