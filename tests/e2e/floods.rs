//! Floods: clients that send without pause, slowly or without an end (B9).

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use support::{
    TestApp,
    activity::single_sku,
    slow_senders::{Durations, HeaderFlood, SlowSenders},
};

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
    for _ in 0..250 {
        app.http.get("/readyz", "").await.is(200);
    }
    let number = checks().await - before;
    assert!((2..60).contains(&(number as usize)), "{number} checks for 250 requests");
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

#[tokio::test(flavor = "multi_thread")]
async fn honest_buyers_are_served_beside_two_thousand_slow_senders() {
    dev::open_files::raise_open_file_limit();
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({"skus": single_sku(1_000)})).await;
    let port = app.with_app(|app| app.url().rsplit_once(':').and_then(|(_, port)| port.parse().ok())).expect("a port");
    let [mut before, mut beside] = [Durations::default(), Durations::default()];
    for index in 0..30 {
        before.buy(&app, &activity, &format!("before-{index}")).await;
    }
    let senders = SlowSenders::start(port, 2_000).await;
    for index in 0..30 {
        beside.buy(&app, &activity, &format!("beside-{index}")).await;
    }
    println!("without slow senders: {}\nbeside {} of them: {}", before.summary(), senders.open(), beside.summary());
    assert!(senders.open() >= 1_000, "{} slow senders are left", senders.open());
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_buyers_are_served_beside_a_flood_of_header_lines() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({"skus": single_sku(1_000)})).await;
    let port = app.with_app(|app| app.url().rsplit_once(':').and_then(|(_, port)| port.parse().ok())).expect("a port");
    let [mut before, mut beside] = [Durations::default(), Durations::default()];
    for index in 0..30 {
        before.buy(&app, &activity, &format!("before-{index}")).await;
    }
    let flood = HeaderFlood::start(port, 50);
    for index in 0..30 {
        beside.buy(&app, &activity, &format!("beside-{index}")).await;
    }
    let refused = flood.wait_for_refusals().await;
    println!("without a flood: {}\nbeside it: {}", before.summary(), beside.summary());
    println!("{refused} requests with a megabyte of header lines were refused");
}
