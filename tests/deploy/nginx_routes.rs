//! Routes in nginx: which are closed to other addresses and hosts, by any name, and the address that the app receives
//! (B4, G9).

use dev::nginx::OPERATOR_HOST;
use reqwest::Method;
#[cfg(target_os = "linux")]
use support::{HttpClient, status_of};

use crate::fake_app::{FakeApp, NginxProxy};

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_app_receives_the_address_that_nginx_sees_not_a_forged_one() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let other_client = HttpClient::from_other_address(&nginx.server.url());
    for path in
        ["/api/orders/demo.1", "/api/activities/demo/orders", "/api/payments/webhook", "/sale", "/api/activities/demo"]
    {
        for (http, address) in [(&nginx.http, "127.0.0.1"), (&other_client, "127.0.0.2")] {
            let forged = ["x-forwarded-for", "x-real-ip", "forwarded"].map(|name| (name, "203.0.113.9".to_owned()));
            // Pages and activities are cached: request a different path from each address.
            let path = if path.ends_with("demo") { format!("{path}-{address}") } else { format!("{path}/{address}") };
            http.send_with_headers(Method::GET, &path, &forged, "").await.expect("an answer").is(200);
            let requests = app.requests_containing(&path);
            assert_eq!(requests.last().expect("a request").header("x-forwarded-for"), address, "{path}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn operator_routes_are_closed_to_other_addresses() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::in_front_of(&[&app]);
    let other_client = HttpClient::from_other_address(&nginx.server.url());
    let closed = ["/metrics", "/readyz", "/api/admin", "/api/admin/activities/demo/stats", "/api/tasks/sweep"];
    for path in closed {
        nginx.http.get(path, "operator").await.is(200);
        other_client.get(path, "operator").await.is_problem(404, "not_found");
    }
    let seen = app.requests_containing("/").len();
    for path in [
        "/api/%61dmin/bans",
        "/api/orders/../admin/bans",
        "/api/orders/%2e%2e/admin/bans",
        "/api/./admin/bans",
        "//api/admin/bans",
        "/api//admin/bans",
        "/api/admin%2fbans",
        "http://sale.example/metrics",
        "/metrics?x=/sale",
        "/metrics#x",
        "/readyz#?x",
        "/api/admin#/bans",
        // Operators' routes for the app, others for nginx, which decodes them.
        "/api/admin/../orders/demo.1",
        "/api/admin/%2e%2e/orders/demo.1",
        "/api/admin/bans/user/a%2F..%2F..%2F..%2F..%2F..%2Fsale",
        "/api/tasks/..%2Forders/demo.1",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: sale.example\r\n");
        let status = status_of([127, 0, 0, 2].into(), nginx.server.port(), head.as_bytes()).await;
        assert_eq!(status, "404", "{path}");
    }
    assert_eq!(app.requests_containing("/").len(), seen, "{:#?}", app.requests_containing("/"));
}

/// With a host of its own, the operators' page has another origin than the pages of buyers.
#[tokio::test(flavor = "multi_thread")]
async fn operators_with_a_host_of_their_own_work_only_there() {
    let app = FakeApp::start().await;
    let nginx = NginxProxy::with_desk(&app);
    let status = async |host: &str, path: &str| {
        let headers = [("host", host.to_owned())];
        nginx.http.send_with_headers(Method::GET, path, &headers, "").await.expect("an answer").status
    };
    let of_operators = [
        "/admin",
        "/admin/preview",
        "/admin/sale",
        "/api/admin",
        "/api/admin/activities",
        "/api/admin/bans/user/a%2Fb",
        "/api/tasks/sweep",
    ];
    let of_buyers = [
        "/",
        "/sale",
        "/orders",
        "/api/activities",
        "/api/activities/demo",
        "/api/orders",
        "/api/orders/demo.1",
        "/api/activities/demo/ticket",
        "/api/payments/webhook",
        "/administration",
        "/signed-in",
        "/api/orders/demo.svg",
        "/sandbox/demo.svg",
        "/demo.svg/orders",
    ];
    let of_both = [
        "/assets/js/operator/sales.js",
        "/demo/camera.svg",
        "/api/activities/demo/gate.json",
        "/healthz",
        "/readyz",
        "/metrics",
    ];
    for (paths, at_the_sale, at_the_desk) in
        [(&of_operators[..], 404, 200), (&of_buyers, 200, 404), (&of_both, 200, 200)]
    {
        for path in paths {
            let found = [status("sale.example", path).await, status(OPERATOR_HOST, path).await];
            assert_eq!(found, [at_the_sale, at_the_desk], "{path}");
        }
    }
    let seen = app.requests_containing("/").len();
    // Other names of the operators' routes and of the host.
    for path in [
        "/%61dmin",
        "/admin.html",
        "/admin/preview.html",
        "/admin/pre%76iew",
        "/api/%61dmin/activities",
        "/api/admi%6e",
        "/ap%69/tasks/sweep",
    ] {
        assert_eq!(status("sale.example", path).await, 404, "{path}");
        assert_eq!(status("", path).await, 400, "{path}");
    }
    assert_eq!(app.requests_containing("/").len(), seen, "{:#?}", app.requests_containing("/"));
    for host in ["OPERATORS.sale.example", "operators.sale.example."] {
        assert_eq!(status(host, "/sale").await, 404, "{host}");
    }
}
