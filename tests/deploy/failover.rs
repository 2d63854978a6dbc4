//! Several apps behind nginx: which requests another app gets when one is down (B9, G9).

use std::time::Instant;

use serde_json::json;

use crate::{
    fake_app::{FakeApp, NginxProxy},
    nginx_limits::{ORDER_PATH, RESERVE_PATH},
};

const CHECKOUT_PATH: &str = "/api/orders/demo.1/checkout";

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
        nginx.http.post(CHECKOUT_PATH, "ada", &json!({})).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_reservations_whose_connection_dies_are_repeated_and_a_checkout_is_not() {
    let (failing, other) = (FakeApp::start().await, FakeApp::start().await);
    let nginx = NginxProxy::in_front_of(&[&failing, &other]);
    failing.fail();
    let start = Instant::now();
    for number in 0..20 {
        nginx.http.get(&format!("/api/orders/read.{number}"), "ada").await.is(200);
        nginx.http.post(&format!("/api/activities/reserve-{number}/orders"), "", &json!({})).await.is(200);
        let checkout = format!("/api/orders/pay.{number}/checkout");
        let response = nginx.http.post(&checkout, "ada", &json!({})).await;
        let [lost, received] = [&failing, &other].map(|app| app.requests_containing(&checkout).len());
        assert_eq!(lost + received, 1, "{response:?}");
        // The app got it, and may have done what it asks for: that is not "overloaded", which says that it did nothing.
        match lost {
            1 => response.is_problem(503, "not_ready"),
            _ => response.is(200),
        };
    }
    let most = 1 + start.elapsed().as_secs() / 2;
    for lane in ["/read.", "/reserve-", "/pay."] {
        let asked = u64::try_from(failing.requests_containing(lane).len()).expect("a number");
        assert!((1..=most).contains(&asked), "the app that fails got {asked} requests of {lane}");
    }
}

/// Linux answers no new connection of a server that has not accepted the last ones, like a machine that is gone.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_takes_no_connection_is_passed_over() {
    use std::{net::Ipv4Addr, time::Duration};
    use tokio::{
        net::{TcpSocket, TcpStream},
        time::timeout,
    };

    let gone = TcpSocket::new_v4().expect("a socket");
    gone.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let gone = gone.listen(0).expect("a server");
    let address = gone.local_addr().expect("an address");
    while timeout(Duration::from_millis(500), TcpStream::connect(address)).await.is_ok() {}
    let app = FakeApp::start().await;
    for start in [NginxProxy::in_front_of_ports, NginxProxy::in_front_of_machines] {
        let (nginx, started) = (start(&[address.port(), app.port]), Instant::now());
        for _ in 0..4 {
            nginx.http.get(ORDER_PATH, "ada").await.is(200);
            nginx.http.post(RESERVE_PATH, "", &json!({})).await.is(200);
            nginx.http.post(CHECKOUT_PATH, "ada", &json!({})).await.is(200);
        }
        eprintln!("twelve requests beside a machine that is gone took {:.1} s", started.elapsed().as_secs_f64());
    }
}
