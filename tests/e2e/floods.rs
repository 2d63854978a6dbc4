//! Floods: clients that send without pause, slowly or without an end, with and without valid tokens (B4, B9).

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use reqwest::Method;
use serde_json::json;

use support::TestApp;

/// Sends so many requests of one client, one after the other, and returns how many were refused by a limit.
async fn count_limited(app: &TestApp, method: &Method, path: &str, token: &str, client: &str, number: usize) -> usize {
    let mut limited = 0;
    for _ in 0..number {
        let headers = [("authorization", format!("Bearer {token}")), ("x-forwarded-for", client.to_owned())];
        let sent = app.http.send_with_headers(method.clone(), path, &headers, "{}").await.expect("an answer");
        if sent.status == 429 {
            sent.is_problem(429, "rate_limited");
            limited += 1;
        }
    }
    limited
}

/// Many more requests than a client may send at once.
const FLOOD: usize = 250;

/// Carriers put many people behind one address, and the names of users may be known.
#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_that_name_a_user_stop_neither_paying_nor_a_ticket_of_that_user() {
    let app = TestApp::with_variables(|variables| variables.set("trusted_hops", "1"));
    let activity = app.create_activity(json!({})).await;
    let ada = app.create_buyer(&activity, "ada").await;
    let order_no = app.place_order(&activity, &ada).await;
    app.wait_for_status(&order_no, &ada.jwt, "pending_payment").await;
    let forged = format!("{}x", ada.jwt);
    for (method, path) in [
        (Method::GET, "/api/orders".to_owned()),
        (Method::POST, format!("/api/orders/{order_no}/checkout")),
        (Method::POST, format!("/api/activities/{}/ticket", activity.id)),
    ] {
        let limited = count_limited(&app, &method, &path, &forged, "198.51.100.7", FLOOD).await;
        assert!(limited >= 10, "{method} {path}: {limited} of {FLOOD} were refused");
        assert_eq!(count_limited(&app, &method, &path, &ada.jwt, "198.51.100.7", 5).await, 0, "{method} {path}");
    }
}

/// Any client can ask, where no proxy closes the route. Each check calls every store, and writes to key-value.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_is_checked_once_a_second_by_an_instance_for_callers_without_a_token() {
    let app = TestApp::dedicated();
    let mut redis = app.connect_redis().await;
    let mut checks = async || {
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.expect("an answer");
        let calls = info.split("cmdstat_info:calls=").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
        calls.unwrap_or(0)
    };
    let before: u32 = checks().await;
    for _ in 0..FLOOD {
        app.http.get("/readyz", "").await.is(200);
    }
    let number = checks().await - before;
    assert!((2..FLOOD / 4).contains(&(number as usize)), "{number} checks for {FLOOD} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_cannot_keep_an_instance_busy_with_polls_lists_payments_or_tickets() {
    let app = TestApp::with_variables(|variables| variables.set("trusted_hops", "1"));
    let activity = app.create_activity(json!({})).await;
    let eve = app.create_buyer(&activity, "eve").await;
    let order_no = app.place_order(&activity, &eve).await;
    let order = format!("/api/orders/{order_no}");
    let forged = format!("{}x", eve.jwt);
    for (method, path, token) in [
        (Method::GET, order.clone(), &eve.ticket),
        (Method::GET, order.clone(), &eve.jwt),
        (Method::GET, "/api/orders".to_owned(), &eve.jwt),
        (Method::POST, format!("{order}/checkout"), &eve.jwt),
        // Before the signature is verified: a forged token costs no more.
        (Method::GET, "/api/orders".to_owned(), &forged),
        (Method::POST, format!("/api/activities/{}/ticket", activity.id), &forged),
        (Method::POST, format!("/api/activities/{}/challenge", activity.id), &forged),
    ] {
        let limited = count_limited(&app, &method, &path, token, "198.51.100.7", FLOOD).await;
        assert!(limited >= 10, "{method} {path}: {limited} of {FLOOD} were refused");
    }
    // Another user of the same address is served.
    let ada = app.sign_in("ada");
    assert_eq!(count_limited(&app, &Method::GET, "/api/orders", &ada, "198.51.100.7", 5).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_ends_is_refused_in_time() {
    let app = TestApp::shared();
    let address = app.with_app(|app| app.url().trim_start_matches("http://").to_owned());
    let answers = ["content-length: 16000\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"].map(|rest| {
        let address = address.clone();
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).expect("the app");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            let head = "POST /api/activities/demo/orders HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
            stream.write_all(format!("{head}{rest}").as_bytes()).expect("sent");
            let mut answer = [0; 4_096];
            let length = stream.read(&mut answer).expect("an answer while the body is open");
            String::from_utf8_lossy(&answer[..length]).into_owned()
        })
    });
    for answer in futures::future::join_all(answers).await {
        let answer = answer.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}
