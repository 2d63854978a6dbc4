//! nginx lets pages of the origins in `stampede-cors.conf` call the buyers' routes (G13).

use reqwest::Method;
use support::{HttpClient, Response};

use crate::fake_app::{FakeApp, NginxProxy};

const SHOP: &str = "https://shop.example";
const GATE_PATH: &str = "/api/activities/demo/gate.json";
const ORDERS_PATH: &str = "/api/activities/demo/orders";

async fn send(http: &HttpClient, method: Method, path: &str, origin: &str, body: String) -> Response {
    let headers: &[_] = match method {
        Method::OPTIONS => &[("origin", origin.to_owned()), ("access-control-request-method", "POST".to_owned())],
        _ => &[("origin", origin.to_owned())],
    };
    http.send_with_headers(method, path, headers, body).await.expect("an answer")
}

#[track_caller]
fn assert_shared(response: &Response, origin: &str) {
    let allowed = response.headers.get_all("access-control-allow-origin").iter();
    assert_eq!(allowed.collect::<Vec<_>>(), if origin.is_empty() { vec![] } else { vec![origin] }, "{response:?}");
    let exposed = response.header("access-control-expose-headers");
    assert_eq!(exposed.contains("Retry-After"), !origin.is_empty(), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_response_is_for_every_origin_and_only_allowed_ones_may_read_it() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for origin in [SHOP, "", "https://evil.example", SHOP, "null"] {
        for path in [GATE_PATH, "/client/module.js"] {
            let response = send(&nginx.http, Method::GET, path, origin, String::new()).await.is(200);
            assert_shared(&response, if origin == SHOP { SHOP } else { "" });
        }
    }
    // Two seconds of the gate's cache at most, and one copy of the module.
    assert!(app.requests_containing(GATE_PATH).len() <= 3 && app.requests_containing("/client/").len() == 1);
    assert!(app.requests_containing("/").iter().all(|request| request.header("origin").is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_answers_preflights_and_its_errors_are_readable() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    for path in [ORDERS_PATH, GATE_PATH, "/api/orders", "/api/orders/demo.1/checkout"] {
        let response = send(&nginx.http, Method::OPTIONS, path, SHOP, String::new()).await.is(204);
        assert_eq!(response.header("access-control-allow-origin"), SHOP);
        assert!(response.header("access-control-allow-headers").contains("authorization"), "{response:?}");
        assert!(response.header("access-control-allow-methods").contains("POST"), "{response:?}");
        assert_eq!(response.header("access-control-max-age"), "7200");
        let request = send(&nginx.http, Method::POST, path, SHOP, "{}".to_owned()).await;
        assert_shared(&request, SHOP);
        assert_eq!(request.header("access-control-allow-methods"), "", "{request:?}");
    }
    assert!(app.requests_containing("/").iter().all(|request| request.body_length == 2), "a preflight reached the app");
    assert_shared(&send(&nginx.http, Method::POST, ORDERS_PATH, SHOP, "x".repeat(20_000)).await.is(413), SHOP);
    for path in ["/api/admin/activities", "/api/payments/stripe", "/api/tasks/sweep", "/metrics", "/sale"] {
        for method in [Method::OPTIONS, Method::POST] {
            assert_shared(&send(&nginx.http, method, path, SHOP, String::new()).await, "");
        }
    }
    app.stop().await;
    assert_shared(&send(&nginx.http, Method::POST, ORDERS_PATH, SHOP, "{}".to_owned()).await.is(503), SHOP);
    assert_shared(&send(&nginx.http, Method::POST, "/api/payments/stripe", SHOP, "{}".to_owned()).await.is(503), "");
    send(&nginx.http, Method::OPTIONS, ORDERS_PATH, SHOP, String::new()).await.is(204);
}
