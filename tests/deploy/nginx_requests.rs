//! Requests that nginx refuses or closes before any limit, and what its log gets (B9, G6, G9).

use std::{fs, net::Ipv4Addr, time::Duration};

use dev::root;
use futures::{StreamExt, stream::FuturesUnordered};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use reqwest::Method;
use serde_json::json;
use support::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    fake_app::{FakeApp, NginxProxy},
    nginx_limits::{ORDER_PATH, RESERVE_PATH, post_from},
};

/// The log is on the disk of Redis and of SQLite. Some requests are refused before any limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_requests_leaves_few_short_lines_in_the_log() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_sampled_log(&app);
    let long = "a".repeat(4_000);
    let method = Method::from_bytes("M".repeat(2_000).as_bytes()).expect("a method");
    for path in ["/.", "/", "/api/orders/demo."].map(|start| format!("{start}{long}")) {
        let requests = (0..500).map(|_| nginx.http.get(&path, ""));
        let requests: Vec<_> = futures::stream::iter(requests).buffer_unordered(20).collect().await;
        assert_eq!(requests.len(), 500);
    }
    for _ in 0..100 {
        let _ = nginx.http.send_with_headers(method.clone(), "/", &[], "").await;
    }
    // A ticket is no order.
    let path = "/api/activities/demo/ticket";
    let requests = (0..300).map(|n| post_from(&nginx.http, path, format!("203.0.113.{}", n % 100)));
    let requests: Vec<_> = futures::stream::iter(requests).buffer_unordered(20).collect().await;
    assert_eq!(requests.len(), 300);
    for number in 0..20 {
        nginx.http.post(&format!("/api/orders/demo.{number}/checkout"), "", &json!({})).await.is(200);
    }
    nginx.http.get("/api/admin/activities", "").await.is(200);
    // Each worker writes its own lines, five seconds after the first of them.
    let log = eventually("what changes something, and the operator's request, in the log", async || {
        let log = nginx.log();
        let counts = ["/checkout\"", "/api/admin/activities\""].map(|path| log.matches(path).count());
        if counts == [20, 1] { Ok(log) } else { Err(format!("{counts:?}")) }
    })
    .await;
    assert!(log.lines().count() < 21 + 150, "{} lines", log.lines().count());
    let longest = log.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 500, "{longest}");
}

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
    // The header of the first is never complete, and the body of the last comes after its answer.
    let cases = [
        (redirect, "GET / HTTP/1.1\r\nx: "),
        (redirect, "GET / HTTP/1.1\r\nhost: sale.example\r\nx: "),
        (site, "GET / HTTP/1.1\r\nhost: sale.example\r\nx: "),
        (site, "POST //x HTTP/1.1\r\nhost: sale.example\r\ncontent-length: 16000\r\n\r\n"),
    ];
    let closed = futures::future::join_all(cases.map(|(port, head)| bytes_until_closed(port, head))).await;
    assert!(closed.iter().all(|bytes| *bytes <= 15), "{closed:?}");
}

/// A client that takes no body holds nginx's connection and memory, and no limit counts a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_no_limit_counts_have_no_body_in_http_2() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_http2(&app);
    let url = nginx.server.url();
    let connect = || Client::builder(TokioExecutor::new()).http2_only(true).build_http::<String>();
    let send = async |client: &Client<HttpConnector, String>, method: Method, path: &str, body: usize| {
        let request = http::Request::builder().method(method).uri(format!("{url}{path}"));
        let request = request.body("x".repeat(body)).expect("a request");
        let response = client.request(request).await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.expect("a body").to_bytes().len())
    };
    let client = connect();
    let (status, length) = send(&client, Method::GET, "/sale", 0).await;
    assert!(status == 200 && length > 0);
    assert_eq!(send(&client, Method::GET, "//x", 0).await, (404, 0));
    // nginx would answer the name of a proxied location without its last slash by itself.
    let site = root::find().expect("the project").join("deploy/self-hosted/nginx/stampede.conf");
    let site = fs::read_to_string(site).expect("the site");
    let (_, server) = site.rsplit_once("server {").expect("a server");
    let locations = server.lines().filter_map(|line| line.trim().strip_prefix("location /")?.strip_suffix("/ {"));
    let locations: Vec<_> = locations.collect();
    assert_eq!(locations, ["api"]);
    for path in
        locations.iter().flat_map(|name| [format!("/{name}"), format!("/{name}?x")]).chain(["/%61pi".to_owned()])
    {
        assert_eq!(send(&client, Method::GET, &path, 0).await, (404, 0), "{path}");
    }
    for (method, path) in
        [(Method::TRACE, "/sale"), (Method::GET, "/%00"), (Method::GET, "/../.."), (Method::PUT, "/busy.html")]
    {
        let (status, length) = send(&client, method.clone(), path, 0).await;
        assert!((400..500).contains(&status) && length == 0, "{method} {path}: {status}, {length} bytes");
    }
    assert_eq!(send(&client, Method::POST, "/api/payments/webhook", 20_000).await, (413, 0));
    let lists = (0..100).map(|_| send(&client, Method::GET, "/api/orders", 0));
    let lists = futures::future::join_all(lists.collect::<Vec<_>>()).await;
    let refused: Vec<_> = lists.iter().filter(|(status, _)| *status != 200).collect();
    assert!(!refused.is_empty() && refused.iter().all(|refusal| **refusal == (429, 0)), "{refused:?}");

    // More pages than one client may have in flight; a connection has eight.
    app.delay_responses(&["/invented-"]);
    let clients: Vec<_> = (0..30).map(|_| connect()).collect();
    let mut pages: FuturesUnordered<_> = (0..240)
        .map(|n| {
            let (send, client) = (&send, &clients[n / 8]);
            async move { send(client, Method::GET, &format!("/invented-{n}"), 0).await }
        })
        .collect();
    for _ in 0..40 {
        assert_eq!(pages.next().await, Some((429, 0)));
    }
    app.delay_responses(&[]);
    assert_eq!(pages.filter(|(status, _)| futures::future::ready(*status == 200)).count().await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_sixteen_kibibytes_passes_and_one_more_byte_does_not() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for path in [RESERVE_PATH, "/api/payments/webhook", "/sale"] {
        for (length, fits) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
            let sent =
                nginx.http.send_with_headers(Method::POST, path, &[], "x".repeat(length)).await.expect("an answer");
            if fits {
                sent.is(200);
            } else {
                sent.is_problem(413, "payload_too_large");
            }
        }
        assert_eq!(
            app.requests_containing(path).iter().map(|request| request.body_length).collect::<Vec<_>>(),
            [16 * 1024],
            "{path}"
        );
    }
}

/// A client sends a long path once and repeats it with a byte, before any limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_longer_than_any_route_is_refused() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for (start, length, status) in
        [("/", 199, 200), ("/", 200, 404), ("/api/admin/strikes/", 399, 200), ("/api/admin/strikes/", 400, 404)]
    {
        let path = format!("{start}{}", "a".repeat(length - start.len()));
        nginx.http.get(&path, "").await.is(status);
        assert_eq!(app.requests_containing(&path).len(), usize::from(status == 200), "{start}, {length}");
    }
    for ambiguous in ["%2e", "/", "//a"].map(|end| format!("/api/admin/strikes/{}{end}", "a".repeat(300))) {
        nginx.http.get(&ambiguous, "").await.is(404);
    }
}

/// The same byte, asked for hundreds of times: nginx would read the file for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_served_whole_whatever_ranges_are_asked_for() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for path in ["/busy.html", "/sale"] {
        let ranges = [("range", "bytes=0-0,0-0".to_owned())];
        nginx.http.send_with_headers(Method::GET, path, &ranges, "").await.expect("an answer").is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_token_and_the_shops_cookies_pass_and_headers_without_end_do_not() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let long = "x".repeat(7_000);
    for (headers, fits) in [
        (vec![("authorization", long.clone()), ("cookie", long.clone())], true),
        (vec![("authorization", long.clone()), ("cookie", long.clone()), ("x-more", long.clone())], false),
        (vec![("x", String::new()); 90], true),
        (vec![("x", String::new()); 110], false),
    ] {
        let sent = nginx.http.send_with_headers(Method::GET, ORDER_PATH, &headers, "").await.expect("an answer");
        assert_eq!(sent.status, if fits { 200 } else { 400 }, "{sent:?}");
    }
    assert_eq!(app.requests_containing(ORDER_PATH).len(), 2);
}
