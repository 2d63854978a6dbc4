//! Floods: clients that send without pause, slowly or without an end (B9).

use std::net::Ipv4Addr;

use futures::future::join_all;
use support::{TestApp, exchange};

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
    let head = "POST /api/activities/demo/orders HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    let bodies = ["content-length: 16000\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"];
    let port = app.port();
    let answers =
        bodies.map(async |body| exchange(Ipv4Addr::LOCALHOST, port, &[head.as_bytes(), body.as_bytes()]).await);
    for answer in join_all(answers).await {
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}
