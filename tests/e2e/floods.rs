//! Floods: clients that send without pause, slowly or without an end (B9).

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use support::TestApp;

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
