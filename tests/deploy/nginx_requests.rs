//! How long and how large requests may be (B9, G9).

use std::{net::Ipv4Addr, time::Duration};

use reqwest::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    fake_app::{FakeApp, NginxProxy},
    nginx_limits::{ORDER_PATH, RESERVE_PATH},
};

/// Sends `head`, and a byte more each second. Returns after how many of them nginx closed the connection.
async fn bytes_until_closed(port: u16, head: &str) -> usize {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("nginx");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut received = [0; 4_096];
    for sent in 0..60 {
        let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut received)).await;
        if matches!(read, Ok(Ok(0) | Err(_))) || stream.write_all(b"x").await.is_err() {
            return sent;
        }
    }
    usize::MAX
}

/// nginx counts connections of all servers together, and limits those of no address: each is closed in time.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_are_closed_within_seconds_at_every_port() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let redirect_port = nginx.server.redirect_url().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let (site, redirect) = (nginx.server.port(), redirect_port.expect("a port"));
    // The header of the first is never complete.
    let cases = [
        (redirect, "GET / HTTP/1.1\r\nx: "),
        (redirect, "GET / HTTP/1.1\r\nhost: sale.example\r\nx: "),
        (site, "GET / HTTP/1.1\r\nhost: sale.example\r\nx: "),
    ];
    let closed = futures::future::join_all(cases.map(|(port, head)| bytes_until_closed(port, head))).await;
    assert!(closed.iter().all(|bytes| *bytes <= 15), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_16_kib_passes_a_callback_of_64_and_one_more_byte_does_not() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for (path, most) in [(RESERVE_PATH, 16 * 1024), ("/api/payments/stripe", 64 * 1024)] {
        let send = async |length: usize| {
            let body = "x".repeat(length);
            nginx.http.send_with_headers(Method::POST, path, &[], body).await.expect("an answer")
        };
        send(most).await.is(200);
        send(most + 1).await.is_problem(413, "payload_too_large");
        let received: Vec<_> = app.requests_containing(path).iter().map(|request| request.body_length).collect();
        assert_eq!(received, [most], "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_of_fifteen_kilobytes_reaches_the_app_and_headers_without_end_do_not() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let long = "x".repeat(15_000);
    nginx.http.get(ORDER_PATH, &long).await.is(200);
    assert_eq!(app.requests_containing(ORDER_PATH)[0].header("authorization"), format!("Bearer {long}"));
    let endless = ["x-1", "x-2", "x-3", "x-4", "x-5"].map(|name| (name, long.clone()));
    let sent = nginx.http.send_with_headers(Method::GET, ORDER_PATH, &endless, "").await.expect("an answer");
    assert_eq!((sent.status, app.requests_containing(ORDER_PATH).len()), (400, 1));
}
