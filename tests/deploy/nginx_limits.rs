//! Limits in nginx: requests in flight per lane, client and network, rates, body size (B4, B9, G9).
//!
//! Reservations and page views never delay payments.

use std::{fs, net::Ipv4Addr, time::Duration};

use dev::{nginx::PROVIDER_ADDRESS, open_files, root};
use futures::{StreamExt, stream::FuturesUnordered};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::fake_app::{FakeApp, NginxProxy};
use support::{HttpClient, Response, eventually};

/// Concurrent requests that the site's upstream `stampede_crowd` allows (`max_conns`).
const CROWD_MAX_CONNS: usize = 600;
/// Concurrent requests that the site's upstream `stampede_tickets` allows.
const TICKETS_MAX_CONNS: usize = 150;
/// Concurrent requests that the site's upstream `stampede_callbacks` allows.
const CALLBACKS_MAX_CONNS: usize = 80;
/// Concurrent requests that the site's upstream `stampede_orders` allows.
const ORDERS_MAX_CONNS: usize = 150;

const RESERVE_PATH: &str = "/api/activities/demo/orders";
const ORDER_PATH: &str = "/api/orders/demo.1";
const PAYMENT_PATHS: [&str; 5] = [
    "/api/orders/demo.2/checkout",
    "/api/orders/demo.2/cancel",
    "/api/orders/demo.2/refund",
    "/api/payments/webhook",
    "/api/payments/stripe",
];

#[tokio::test(flavor = "multi_thread")]
async fn when_the_crowd_limit_is_reached_orders_can_still_be_polled_and_paid() {
    open_files::raise_open_file_limit();
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    app.delay_responses(&[RESERVE_PATH]);
    let mut reservations: FuturesUnordered<_> = (0..CROWD_MAX_CONNS + 50)
        .map(|n| post_from(&nginx.http, RESERVE_PATH, format!("203.0.113.{}", n % 50)))
        .collect();
    // Requests beyond the limit are refused at once; the others wait for the app.
    for _ in 0..50 {
        let refusal = tokio::time::timeout(Duration::from_secs(10), reservations.next()).await;
        refusal.expect("a refusal").expect("an answer").is_problem(503, "overloaded");
    }
    // nginx has accepted the others and is forwarding them.
    eventually("the crowd at the app", async || match app.requests_containing(RESERVE_PATH).len() {
        CROWD_MAX_CONNS => Ok(()),
        number => Err(number),
    })
    .await;
    nginx.http.get("/api/activities/demo/gate.json", "").await.is_problem(503, "overloaded");

    nginx.http.get(ORDER_PATH, "ada").await.is(200);
    for path in PAYMENT_PATHS {
        nginx.http.post(path, "ada", &json!({})).await.is(200);
    }
    nginx.http.get("/healthz", "").await.is(200);
    nginx.http.get("/readyz", "").await.is(200);

    // Payment routes still work when polling has reached its limit, too.
    app.delay_responses(&[RESERVE_PATH, ORDER_PATH]);
    let mut polls: FuturesUnordered<_> = (0..ORDERS_MAX_CONNS + 5)
        .map(|n| {
            let (http, headers) = (&nginx.http, [("x-test-client", format!("203.0.113.{}", n % 50))]);
            async move { http.send_with_headers(Method::GET, ORDER_PATH, &headers, "").await.expect("an answer") }
        })
        .collect();
    for _ in 0..5 {
        polls.next().await.expect("an answer").is_problem(503, "overloaded");
    }
    for path in PAYMENT_PATHS {
        nginx.http.post(path, "ada", &json!({})).await.is(200);
    }

    app.delay_responses(&[]);
    assert_eq!(polls.map(|response| response.is(200)).count().await, ORDERS_MAX_CONNS);
    assert_eq!(reservations.map(|response| response.is(200)).count().await, CROWD_MAX_CONNS);
    nginx.http.post(RESERVE_PATH, "", &json!({})).await.is(200);
}

/// Sends a request whose client has this address, through a proxy [`NginxProxy::with_client_header`].
async fn post_from(http: &HttpClient, path: &str, client: String) -> Response {
    http.send_with_headers(Method::POST, path, &[("x-test-client", client)], "{}").await.expect("an answer")
}

/// Any client can send callbacks with wrong signatures and ask for tickets, hundreds at a time on a few connections; and for
/// pages and activities that do not exist, so that no cache has them. `{n}` makes paths differ.
#[tokio::test(flavor = "multi_thread")]
async fn one_client_fills_no_lane() {
    open_files::raise_open_file_limit();
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    let send = async |method: &Method, path: &str, n: usize, client: String| {
        let headers = [("x-test-client", client)];
        nginx
            .http
            .send_with_headers(method.clone(), &path.replace("{n}", &n.to_string()), &headers, "")
            .await
            .expect("an answer")
    };
    for (method, path, of_a_client, of_a_site) in [
        (Method::POST, "/api/payments/stripe", 25, 40),
        (Method::POST, RESERVE_PATH, 100, 200),
        (Method::POST, "/api/activities/demo/ticket", 50, 75),
        (Method::GET, "/invented-{n}", 200, 300),
        (Method::POST, "/sale", 200, 300),
        (Method::GET, "/api/activities/invented-{n}/gate.json", 200, 300),
        (Method::GET, "/api/orders/demo.{n}", 50, 75),
        (Method::GET, "/healthz", 50, 75),
        (Method::POST, "/api/orders/demo.{n}/checkout", 40, 60),
    ] {
        let common = path.split("{n}").next().unwrap_or(path);
        // An IPv4 address, and networks of one /48.
        for (turn, in_flight) in [of_a_client, of_a_site].into_iter().enumerate() {
            let client = |n: usize| match turn {
                0 => "198.51.100.1".to_owned(),
                _ => format!("2001:db8:7:{:x}::1", n % 8),
            };
            let first = turn * 1_000;
            app.delay_responses(&[common]);
            let before = app.requests_containing(common).len();
            let arrived = async |number: usize| {
                eventually("the requests at the app", async || match app.requests_containing(common).len() - before {
                    arrived if arrived == number => Ok(()),
                    arrived => Err(arrived),
                })
                .await;
            };
            let mut flood: FuturesUnordered<_> =
                (first..first + in_flight + 20).map(|n| send(&method, path, n, client(n))).collect();
            for _ in 0..20 {
                let refusal = tokio::time::timeout(Duration::from_secs(10), flood.next()).await;
                assert_eq!(refusal.expect("a refusal").expect("an answer").status, 429, "{path}");
            }
            arrived(in_flight).await;
            let other = send(&method, path, first + 900, "198.51.100.2".to_owned());
            let released = async {
                arrived(in_flight + 1).await;
                for operators in ["/readyz", "/api/admin/activities", "/api/tasks/sweep"] {
                    nginx.http.get(operators, "").await.is(200);
                }
                app.delay_responses(&[]);
            };
            let (other, ()) = futures::join!(other, released);
            other.is(200);
            assert_eq!(flood.map(|response| response.is(200)).count().await, in_flight, "{path}");
        }
    }
}

/// A client that hangs up leaves its request to the app, which goes on with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_before_the_answers_fills_no_lane() {
    open_files::raise_open_file_limit();
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    for (path, in_flight) in [(RESERVE_PATH, 100), ("/api/payments/stripe", 25)] {
        app.delay_responses(&[path]);
        eventually("as many requests at the app as it may have", async || {
            let requests = (0..30).map(|_| post_from(&nginx.http, path, "198.51.100.1".to_owned()));
            let _ = tokio::time::timeout(Duration::from_millis(300), futures::future::join_all(requests)).await;
            match app.requests_containing(path).len() {
                arrived if arrived < in_flight => Err(arrived),
                _ => Ok(()),
            }
        })
        .await;
        post_from(&nginx.http, path, "198.51.100.1".to_owned()).await.is_problem(429, "rate_limited");
        assert_eq!(app.requests_containing(path).len(), in_flight, "{path}");
        app.delay_responses(&[]);
        eventually("an answer after theirs", async || {
            match post_from(&nginx.http, path, "198.51.100.1".to_owned()).await.status {
                200 => Ok(()),
                status => Err(status),
            }
        })
        .await;
    }
}

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
    // These change nothing after the start, and a ticket is no order.
    for path in ["/api/activities/demo/reminders", "/api/activities/demo/ticket"] {
        let requests = (0..300).map(|n| post_from(&nginx.http, path, format!("203.0.113.{}", n % 100)));
        let requests: Vec<_> = futures::stream::iter(requests).buffer_unordered(20).collect().await;
        assert_eq!(requests.len(), 300);
    }
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

/// The provider of hosted checks is silent: each request for a ticket waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn tickets_that_wait_stop_no_reservation() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    let ticket_path = "/api/activities/demo/ticket";
    app.delay_responses(&[ticket_path]);
    let mut tickets: FuturesUnordered<_> =
        (0..TICKETS_MAX_CONNS + 5).map(|n| post_from(&nginx.http, ticket_path, format!("203.0.113.{n}"))).collect();
    for _ in 0..5 {
        tickets.next().await.expect("an answer").is_problem(503, "overloaded");
    }
    post_from(&nginx.http, RESERVE_PATH, "203.0.113.1".to_owned()).await.is(200);
    nginx.http.get("/api/activities/demo/gate.json", "").await.is(200);
    app.delay_responses(&[]);
    assert_eq!(tickets.map(|response| response.is(200)).count().await, TICKETS_MAX_CONNS);
}

/// A payment provider sends from one address.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_listed_has_the_whole_lane_of_callbacks() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    app.delay_responses(&["/api/payments/webhook"]);
    let callbacks: FuturesUnordered<_> = (0..CALLBACKS_MAX_CONNS)
        .map(|_| post_from(&nginx.http, "/api/payments/webhook", PROVIDER_ADDRESS.to_owned()))
        .collect();
    let released = async {
        eventually("the callbacks at the app", async || match app.requests_containing("/api/payments/webhook").len() {
            CALLBACKS_MAX_CONNS => Ok(()),
            number => Err(number),
        })
        .await;
        app.delay_responses(&[]);
    };
    let (answered, ()) = futures::join!(callbacks.map(|response| response.is(200)).count(), released);
    assert_eq!(answered, CALLBACKS_MAX_CONNS);
}

/// Forged callbacks from many addresses fill the lane of callbacks, and no other one.
#[tokio::test(flavor = "multi_thread")]
async fn forged_callbacks_from_many_addresses_stop_no_checkout_and_no_operator() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    app.delay_responses(&["/api/payments/stripe"]);
    let mut flood: FuturesUnordered<_> = (0..CALLBACKS_MAX_CONNS + 5)
        .map(|n| post_from(&nginx.http, "/api/payments/stripe", format!("203.0.113.{n}")))
        .collect();
    for _ in 0..5 {
        flood.next().await.expect("an answer").is_problem(503, "overloaded");
    }
    for path in ["/api/orders/demo.2/checkout", "/api/orders/demo.2/cancel", "/api/orders/demo.2/refund"] {
        nginx.http.post(path, "ada", &json!({})).await.is(200);
    }
    for path in ["/readyz", "/api/admin/activities", "/api/tasks/sweep", "/metrics"] {
        nginx.http.get(path, "").await.is(200);
    }
    app.delay_responses(&[]);
    assert_eq!(flood.map(|response| response.is(200)).count().await, CALLBACKS_MAX_CONNS);
}

/// An IPv6 client has 2^64 addresses, and some have a /48 of such networks.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_limited_by_its_network_and_others_are_not() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    let http = &nginx.http;
    let send = async |method: Method, path: &str, client: String| {
        let headers = [("x-test-client", client), ("authorization", "Bearer ada".to_owned())];
        http.send_with_headers(method, path, &headers, "").await.expect("an answer")
    };
    for (method, path) in [(Method::GET, "/api/orders"), (Method::POST, "/api/orders/demo.1/checkout")] {
        // Each request comes from another address of one network: 40 at once, and ten more a second.
        let flood = |prefix: &'static str, number: usize| {
            let requests = (0..number).map(|n| send(method.clone(), path, format!("{prefix}{n:x}")));
            futures::future::join_all(requests.collect::<Vec<_>>())
        };
        let statuses: Vec<u16> = flood("2001:db8:1:2::", 120).await.iter().map(|response| response.status).collect();
        let passed = statuses.iter().filter(|status| **status == 200).count();
        assert!((40..100).contains(&passed), "{path}: {statuses:?}");
        // Ten of them may pass for each second since.
        let refused = flood("2001:db8:1:2:ffff::", 30).await.into_iter().find(|response| response.status != 200);
        refused.expect("a refusal").is_problem(429, "rate_limited");
        for other in ["2001:db8:1:3::1", "2001:db8:2:2::1", "198.51.100.7"] {
            send(method.clone(), path, other.to_owned()).await.is(200);
        }
        // Every request from another network of one /48, 50 at a time.
        let requests = (0..400).map(|n| send(method.clone(), path, format!("2001:db8:7:{n:x}::1")));
        let responses: Vec<_> = futures::stream::iter(requests).buffer_unordered(50).collect().await;
        let count = |status: u16| responses.iter().filter(|response| response.status == status).count();
        assert!(
            count(200) >= 100 && count(429) >= 100,
            "{path}: {} of a /48 passed, {} refused",
            count(200),
            count(429)
        );
    }
    // Callbacks of a provider come from one address and are not limited.
    for _ in 0..150 {
        send(Method::POST, "/api/payments/stripe", "192.0.2.1".to_owned()).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_apps_share_the_load_and_one_serves_alone_when_the_other_stops() {
    let (one, two) = (FakeApp::start().await, FakeApp::start().await);
    let nginx = NginxProxy::in_front_of(&[&one, &two]);
    for _ in 0..20 {
        nginx.http.get(ORDER_PATH, "ada").await.is(200);
    }
    let shares = [one.requests_containing(ORDER_PATH).len(), two.requests_containing(ORDER_PATH).len()];
    assert!(shares.iter().all(|share| *share >= 5), "{shares:?}");
    two.stop().await;
    for _ in 0..20 {
        nginx.http.get(ORDER_PATH, "ada").await.is(200);
        nginx.http.post(RESERVE_PATH, "", &json!({})).await.is(200);
    }
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
