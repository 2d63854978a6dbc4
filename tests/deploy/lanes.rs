//! Who passes nginx, and how many at once: the crowd never holds up who pays (B4, B9, G9).

use std::time::Duration;

use dev::limits;
use futures::{StreamExt, stream::FuturesUnordered};
use reqwest::{Client, Method};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use crate::stand_in::{Front, StandIn};
use support::{Http, eventually};

/// Requests in flight that the site lets the crowd have, and those who poll.
const CROWD: usize = 600;
const POLLING: usize = 150;

const RESERVE: &str = "/api/activities/demo/orders";
const POLL: &str = "/api/orders/demo.1";
const MONEY: [&str; 5] = [
    "/api/orders/demo.2/checkout",
    "/api/orders/demo.2/cancel",
    "/api/orders/demo.2/refund",
    "/api/payments/webhook",
    "/api/payments/stripe",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_full_crowd_is_told_to_come_back_while_orders_are_polled_and_paid() {
    limits::raise_open_files();
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    app.hold(&[RESERVE]);
    let mut crowd: FuturesUnordered<_> =
        (0..CROWD + 50).map(|_| async { front.http.post(RESERVE, "", &json!({})).await }).collect();
    // Those for whom there is no room hear so at once; the others wait.
    for _ in 0..50 {
        let refused = tokio::time::timeout(Duration::from_secs(10), crowd.next()).await;
        refused.expect("a refusal").expect("an answer").is_problem(503, "overloaded");
    }
    // nginx has taken the others; they are on their way.
    eventually("the crowd at the app", async || match app.seen(RESERVE).len() {
        CROWD => Ok(()),
        number => Err(number),
    })
    .await;
    front.http.get("/api/activities/demo/gate.json", "").await.is_problem(503, "overloaded");

    front.http.get(POLL, "ada").await.is(200);
    for path in MONEY {
        front.http.post(path, "ada", &json!({})).await.is(200);
    }
    front.http.get("/healthz", "").await.is(200);
    front.http.get("/readyz", "").await.is(200);

    // Even when those who poll have filled their lane, money passes.
    app.hold(&[RESERVE, POLL]);
    let mut polls: FuturesUnordered<_> =
        (0..POLLING + 5).map(|_| async { front.http.get(POLL, "ada").await }).collect();
    for _ in 0..5 {
        polls.next().await.expect("an answer").is_problem(503, "overloaded");
    }
    for path in MONEY {
        front.http.post(path, "ada", &json!({})).await.is(200);
    }

    app.hold(&[]);
    assert_eq!(polls.map(|answer| answer.is(200)).count().await, POLLING);
    assert_eq!(crowd.map(|answer| answer.is(200)).count().await, CROWD);
    front.http.post(RESERVE, "", &json!({})).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_apps_share_the_load_and_one_carries_on_alone() {
    let (one, two) = (StandIn::start().await, StandIn::start().await);
    let front = Front::before(&[&one, &two]);
    for _ in 0..20 {
        front.http.get(POLL, "ada").await.is(200);
    }
    let shares = [one.seen(POLL).len(), two.seen(POLL).len()];
    assert!(shares.iter().all(|share| *share >= 5), "{shares:?}");
    two.end().await;
    for _ in 0..20 {
        front.http.get(POLL, "ada").await.is(200);
        front.http.post(RESERVE, "", &json!({})).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_sixteen_kibibytes_passes_and_one_more_byte_does_not() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    for path in [RESERVE, "/api/payments/webhook", "/sale"] {
        for (length, fits) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
            let sent = front.http.raw(Method::POST, path, &[], "x".repeat(length)).await.expect("an answer");
            if fits {
                sent.is(200);
            } else {
                sent.is_problem(413, "payload_too_large");
            }
        }
        assert_eq!(app.seen(path).iter().map(|seen| seen.body).collect::<Vec<_>>(), [16 * 1024], "{path}");
    }
}

/// A client at another address of this machine: only Linux has more than one.
#[cfg(target_os = "linux")]
fn from_elsewhere(front: &Front) -> Http {
    let elsewhere = std::net::IpAddr::from([127, 0, 0, 2]);
    let client = Client::builder().no_proxy().local_address(elsewhere).build().expect("a client");
    Http::with_client(client, &front.nginx.url())
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_app_hears_the_address_that_nginx_sees_whatever_the_client_claims() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    let elsewhere = from_elsewhere(&front);
    for path in [POLL, RESERVE, "/api/payments/webhook", "/sale", "/api/activities/demo"] {
        for (http, address) in [(&front.http, "127.0.0.1"), (&elsewhere, "127.0.0.2")] {
            let forged = ["x-forwarded-for", "x-real-ip", "forwarded"].map(|name| (name, "203.0.113.9".to_owned()));
            // Pages and sales are asked for once: each by a name of its own.
            let path = if path.ends_with("demo") { format!("{path}-{address}") } else { format!("{path}/{address}") };
            http.raw(Method::GET, &path, &forged, "").await.expect("an answer").is(200);
            let seen = app.seen(&path);
            assert_eq!(seen.last().expect("a request").header("x-forwarded-for"), address, "{path}");
        }
    }
}

/// The status of `GET` with a target that clients would tidy up, from the other address.
#[cfg(target_os = "linux")]
async fn raw_status(front: &Front, target: &str) -> String {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.2:0".parse().expect("an address")).expect("an address");
    let mut stream = socket.connect(([127, 0, 0, 1], front.nginx.port()).into()).await.expect("nginx");
    let request = format!("GET {target} HTTP/1.1\r\nhost: sale.example\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn operators_and_their_tools_are_closed_to_everybody_else() {
    let app = StandIn::start().await;
    let front = Front::before(&[&app]);
    let elsewhere = from_elsewhere(&front);
    let closed = ["/metrics", "/readyz", "/api/admin", "/api/admin/activities/demo/stats", "/api/tasks/sweep"];
    for path in closed {
        front.http.get(path, "operator").await.is(200);
        elsewhere.get(path, "operator").await.is_problem(404, "not_found");
    }
    for path in [
        "/api/%61dmin/bans",
        "/api/orders/../admin/bans",
        "/api/orders/%2e%2e/admin/bans",
        "/api/./admin/bans",
        "//api/admin/bans",
        "/api//admin/bans",
        "/api/admin%2fbans",
        // Closed where the app reads it as it stands, and open where nginx tidies it up.
        "/api/admin/../orders/demo.1",
        "/api/admin/%2e%2e/orders/demo.1",
        "/metrics/../sale",
        "/metrics?x=/sale",
        "http://sale.example/metrics",
    ] {
        assert_eq!(raw_status(&front, path).await, "404", "{path}");
    }
    assert_eq!(app.seen("/").len(), closed.len(), "{:#?}", app.seen("/"));
}
