//! Moves the app's clock by an hour while an activity is open.
//!
//! Decisions in Redis use the clock of Redis, and those about money the ledger's: with SQLite the app's, so that the time to
//! pay is longer than the jump here. Cached values that are not known to be fresh are loaded again. A ticket
//! that looks expired is refused, and is valid again once the clock is right.

use std::{fs, path::PathBuf};

use serde_json::json;
use support::{Buyer, Claims, TestActivity, TestApp, activity::single_sku, eventually, eventually_is};
use tempfile::TempDir;
use time::OffsetDateTime;

/// Path of `libfaketime` (Debian package `libfaketime`), which replaces the time functions of a process.
fn faketime_library() -> PathBuf {
    let directories =
        ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let found = directories
        .iter()
        .map(|directory| PathBuf::from(directory).join("libfaketimeMT.so.1"))
        .find(|path| path.is_file());
    found.expect("libfaketime: scripts/install faketime")
}

/// Time to pay, in seconds.
const PAY_TIMEOUT: i64 = 4 * 3_600;

/// Creates a buyer whose sign-in token is valid for four hours, so for every offset of the clock.
async fn create_long_lived_buyer(app: &TestApp, activity: &TestActivity, user: &str) -> Buyer {
    let expires_at = OffsetDateTime::now_utc().unix_timestamp() + 4 * 3_600;
    let jwt = Claims::for_user(user, &app.variables).with_claim("exp", json!(expires_at)).sign(&app.variables);
    let ticket =
        eventually_is("a ticket", 201, async || app.request_ticket(&activity.id, &jwt).await).await.text("ticket");
    Buyer { user: user.to_owned(), jwt, ticket }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_an_hour_and_back_expires_no_order_early_and_reservations_resume() {
    let temp_dir = TempDir::new().expect("a directory");
    let clock = temp_dir.path().join("clock");
    let set_offset = |offset: &str| fs::write(&clock, format!("{offset}\n")).expect("the clock");
    set_offset("+0");
    let app = TestApp::with_settings(&[], |settings| {
        for (name, value) in [
            ("LD_PRELOAD", faketime_library().to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", clock.to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ] {
            settings.environment.push((name.to_owned(), value));
        }
    });
    let activity = app.create_activity(json!({"skus": single_sku(10), "pay_timeout_seconds": PAY_TIMEOUT})).await;
    let (mut orders, mut refused) = (vec![], vec![]);
    for (index, offset) in ["+0", "+3600", "-3600", "+0"].into_iter().enumerate() {
        set_offset(offset);
        let buyer = create_long_lived_buyer(&app, &activity, &format!("buyer-{index}")).await;
        let response = eventually("the jump to be felt", async || {
            let response = app.reserve(&activity, &buyer, "a", 1).await;
            // A ticket is valid for half an hour: an hour ahead, every ticket looks expired and nothing is sold.
            let expected = if offset == "+3600" { 401 } else { 202 };
            if response.status == expected { Ok(response) } else { Err(response.body) }
        })
        .await;
        match response.status {
            202 => orders.push((response.text("order_no"), buyer)),
            _ => refused.push(buyer),
        }
        app.sweep().await;
        for (order_no, buyer) in &orders {
            let order = app.wait_for_status(order_no, &buyer.jwt, "pending_payment").await;
            let pay_by = order["pay_by"].as_str().expect("pay_by");
            let pay_by = OffsetDateTime::parse(pay_by, &time::format_description::well_known::Rfc3339).expect("a time");
            let remaining = (pay_by - OffsetDateTime::now_utc()).whole_seconds();
            assert!((1..=PAY_TIMEOUT).contains(&remaining), "with the clock at {offset}: {order}");
            // A used ticket replays its order or is refused; it never makes a second order.
            let replayed = app.reserve(&activity, buyer, "a", 1).await;
            match replayed.status {
                202 => assert_eq!(replayed.text("order_no"), *order_no),
                _ => drop(replayed.is_problem(401, "ticket_invalid")),
            }
        }
    }
    // The clock is right again: the ticket that looked expired is accepted.
    assert_eq!(refused.len(), 1);
    for buyer in &refused {
        app.reserve(&activity, buyer, "a", 1).await.is(202);
    }
    assert_eq!(app.finish_and_count(&activity).await, [6, 4, 0]);
}
