//! Limits in nginx: requests in flight per lane, client and network, and rates (B4, B9, G9).
//!
//! Reservations and page views never delay payments.

use std::time::Duration;

use dev::open_files;
use futures::{StreamExt, stream::FuturesUnordered};
use reqwest::Method;
use serde_json::json;
use support::{HttpClient, Response, eventually};

use crate::fake_app::{FakeApp, NginxProxy};

/// Concurrent requests that the site's upstream `stampede_crowd` allows (`max_conns`).
const CROWD_MAX_CONNS: usize = 600;
/// Concurrent requests that the site's upstream `stampede_tickets` allows.
const TICKETS_MAX_CONNS: usize = 150;
/// Concurrent requests that the site's upstream `stampede_callbacks` allows.
const CALLBACKS_MAX_CONNS: usize = 80;
/// Concurrent requests that the site's upstream `stampede_orders` allows.
const ORDERS_MAX_CONNS: usize = 150;

pub const RESERVE_PATH: &str = "/api/activities/demo/orders";
pub const ORDER_PATH: &str = "/api/orders/demo.1";
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
pub async fn post_from(http: &HttpClient, path: &str, client: String) -> Response {
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
        (Method::POST, "/api/payments/stripe", 50, 60),
        (Method::POST, RESERVE_PATH, 200, 400),
        (Method::POST, "/api/activities/demo/ticket", 50, 75),
        (Method::GET, "/invented-{n}", 200, 400),
        (Method::GET, "/api/activities/invented-{n}/gate.json", 200, 400),
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
    for (path, in_flight) in [(RESERVE_PATH, 200), ("/api/payments/stripe", 50)] {
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

/// Each request for a ticket waits for a provider of hosted checks, or forged callbacks come from many addresses.
#[tokio::test(flavor = "multi_thread")]
async fn full_lanes_of_tickets_and_callbacks_stop_no_reservation_no_checkout_and_no_operator() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_client_header(&app);
    for (path, max_conns) in
        [("/api/activities/demo/ticket", TICKETS_MAX_CONNS), ("/api/payments/stripe", CALLBACKS_MAX_CONNS)]
    {
        app.delay_responses(&[path]);
        let mut flood: FuturesUnordered<_> =
            (0..max_conns + 5).map(|n| post_from(&nginx.http, path, format!("203.0.113.{n}"))).collect();
        for _ in 0..5 {
            flood.next().await.expect("an answer").is_problem(503, "overloaded");
        }
        for other in [RESERVE_PATH, "/api/orders/demo.2/checkout", "/api/orders/demo.2/cancel"] {
            nginx.http.post(other, "ada", &json!({})).await.is(200);
        }
        for other in ["/api/activities/demo/gate.json", "/readyz", "/api/admin/activities", "/metrics"] {
            nginx.http.get(other, "").await.is(200);
        }
        app.delay_responses(&[]);
        assert_eq!(flood.map(|response| response.is(200)).count().await, max_conns);
    }
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
        let (passed, refused) = (count(200), count(429));
        assert!(passed >= 100 && refused >= 100, "{path}: {passed} of a /48 passed, {refused} refused");
    }
    // Callbacks of a provider come from one address and are not limited.
    for _ in 0..150 {
        send(Method::POST, "/api/payments/stripe", "192.0.2.1".to_owned()).await.is(200);
    }
}
