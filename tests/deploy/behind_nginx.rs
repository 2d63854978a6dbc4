//! The real app behind nginx with one trusted hop: pages, an order and its payment, address limits (B4, G9).

use std::net::Ipv4Addr;

use dev::{nginx::Nginx, proxy::Proxy, root};
use reqwest::{Method, redirect::Policy};
use serde_json::{Value, json};
use support::{HttpClient, TestApp, activity::single_sku, client_builder, eventually, status_of};
use tempfile::TempDir;

/// An app that trusts one hop; its client sends every request through nginx.
struct AppBehindNginx {
    app: TestApp,
    nginx: Nginx,
    _temp_dir: TempDir,
}

fn start_behind_nginx() -> AppBehindNginx {
    start_with_servers(|port| vec![port])
}

/// The upstream servers are the app, whose port `servers` gets, and others at which it answers.
fn start_with_servers(servers: impl FnOnce(u16) -> Vec<u16>) -> AppBehindNginx {
    let temp_dir = TempDir::new().expect("a directory");
    let mut app = TestApp::with_variables(|variables| variables.set("trusted_hops", "1"));
    let nginx = Nginx::start(temp_dir.path(), &root::find().expect("the project"), &servers(app.port()));
    let nginx = nginx.unwrap_or_else(|error| panic!("{error:#}"));
    app.http = HttpClient::of_proxy(&nginx.url());
    AppBehindNginx { app, nginx, _temp_dir: temp_dir }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_paid_behind_nginx_and_a_forged_address_changes_no_limit() {
    let AppBehindNginx { app, nginx, _temp_dir } = start_behind_nginx();
    // Of a sale that may be published soon, the page is cached for less time.
    for (path, seconds) in [("/", 60), ("/sale?activity=demo", 1), ("/busy", 60)] {
        let page = app.http.get(path, "").await.is(200);
        assert_eq!(page.header("cache-control"), format!("public, max-age={seconds}"));
        let conditional = [("if-none-match", page.header("etag").to_owned())];
        app.http.send_with_headers(Method::GET, path, &conditional, "").await.expect("an answer").is(304);
    }
    app.http.get("/no-such-page", "").await.is(404);
    assert_page_with_data_is_compressed(&app).await;
    app.http.get("/api/no-such-route", "").await.is_problem(404, "not_found");

    let (activity, buyer, order_no) = app.create_order(json!({"skus": single_sku(5)})).await;
    app.pay_by_callback(&order_no, &buyer.jwt).await;
    app.wait_for_status(&order_no, &buyer.ticket, "paid").await;
    assert_eq!(app.finish_and_count(&activity).await, [4, 0, 1]);
    let mut large = TestApp::callback_body("payment.succeeded", "unknown", "s");
    large["data"]["metadata"] = json!("x".repeat(60_000));
    app.send_callback("large", &large).await.is(204);

    // Five tickets an hour for each address. `create_activity` may have used some of them.
    let limited_activity =
        app.create_activity(json!({"limits": {"user": null, "ip": {"count": 5, "seconds": 3600}, "all": null}})).await;
    let path = format!("/api/activities/{}/ticket", limited_activity.id);
    let mut statuses = vec![];
    for number in 0..10 {
        let headers = [
            ("authorization", format!("Bearer {}", app.sign_in(&format!("user-{number}")))),
            ("x-forwarded-for", format!("203.0.113.{number}, 198.51.100.{number}")),
            ("spin-client-addr", format!("192.0.2.{number}:1")),
        ];
        statuses.push(app.http.send_with_headers(Method::POST, &path, &headers, "{}").await.expect("an answer").status);
    }
    assert!(statuses.contains(&429) && statuses.last() == Some(&429), "{statuses:?}: {}", nginx.logs());
    assert_limit_is_per_address(&app, &nginx, &path).await;
}

/// Asserts that browsers, which all prefer `br`, get a page that is made for each sale as `gzip`.
async fn assert_page_with_data_is_compressed(app: &TestApp) {
    let activity = app.create_activity(json!({})).await;
    app.http.get(&format!("/api/activities/{}", activity.id), "").await.is(200);
    let (path, accepted) = (format!("/sale?activity={}", activity.id), "gzip, deflate, br, zstd".to_owned());
    eventually("a compressed page with the sale's data", async || {
        let headers = [("accept-encoding", accepted.clone())];
        let page = app.http.send_with_headers(Method::GET, &path, &headers, "").await.expect("an answer").is(200);
        // Without data it is a file that is stored as `br`.
        if page.header("content-encoding") == "br" {
            return Err("no data yet");
        }
        assert_eq!(page.header("content-encoding"), "gzip");
        Ok(())
    })
    .await;
}

#[cfg(not(target_os = "linux"))]
async fn assert_limit_is_per_address(_: &TestApp, _: &Nginx, _: &str) {}

/// Asserts that another address has a limit of its own: the limit counts the address that nginx sees, not nginx's.
#[cfg(target_os = "linux")]
async fn assert_limit_is_per_address(app: &TestApp, nginx: &Nginx, path: &str) {
    let http = HttpClient::from_other_address(&nginx.url());
    http.post(path, &app.sign_in("somebody-else"), &json!({})).await.is(201);
    app.http.post(path, &app.sign_in("somebody-else"), &Value::Null).await.is_problem(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_ban_and_lift_users_and_addresses_of_any_spelling_behind_nginx() {
    let AppBehindNginx { app, nginx: _nginx, _temp_dir } = start_behind_nginx();
    let network = "/bans/ip/2001%3Adb8%3A1%3A2%3A%3A%2F64";
    // The last one is of a user of old: no sign-in token names it any more.
    let (japanese, old) = ("/bans/user/%E4%BC%8A%E8%97%A4%20%E6%84%9B", "/bans/user/%20ada%C2%A0%E2%80%8B");
    for path in [network, "/bans/user/a%2Fb%3D", "/bans/user/.ada", "/bans/user/SHOP%5Cada", japanese, old] {
        app.call_admin(Method::PUT, path, &json!({"seconds": 600})).await.is(200);
    }
    let names = async || -> Vec<String> {
        let bans = app.call_admin(Method::GET, "/bans", &Value::Null).await.is(200).json();
        bans["items"]
            .as_array()
            .expect("bans")
            .iter()
            .map(|ban| ban["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names().await, ["2001:db8:1:2::/64", " ada\u{a0}\u{200b}", ".ada", "SHOP\\ada", "a/b=", "伊藤 愛"]);
    for path in [network, "/bans/user/a%2Fb%3D", japanese, old] {
        app.call_admin(Method::DELETE, path, &Value::Null).await.is(204);
    }
    assert_eq!(names().await, [".ada", "SHOP\\ada"]);
    assert_eq!(app.call_admin(Method::GET, "/strikes/a%2Fb", &Value::Null).await.is(200).text("user"), "a/b");
    let activity = app.create_activity(json!({})).await;
    let unwritten = app.create_buyer(&activity, "ada").await.order_no();
    app.send_callback("evt/1", &TestApp::callback_body("payment.succeeded", &unwritten, "s")).await.is(204);
    app.call_admin(Method::POST, "/callbacks/evt%2F1/dismiss", &Value::Null).await.is(200);
}

/// The engine closes the connection of a request with a host that it cannot read, which is how a server that is down
/// behaves, and answers 500 to a header that is not text.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_the_engine_cannot_read_close_no_lane() {
    let mut second = None;
    let AppBehindNginx { app, nginx, _temp_dir } =
        start_with_servers(|port| vec![port, second.insert(Proxy::start(port).expect("a second server")).port()]);
    let activity = app.create_activity(json!({})).await;
    let gate = format!("/api/activities/{}/gate.json", activity.id);
    let lanes = [
        "/api/nowhere",
        "/api/orders/demo.1",
        "/api/activities/demo/ticket",
        "/api/orders/demo.1/checkout",
        "/api/payments/nobody",
        &gate,
        "/sale",
    ];
    let [text, control, many] = [b"x-a: \xff\r\n".to_vec(), b"x-a: \x01\r\n".to_vec(), b"x-a: 1\r\n".repeat(120)];
    let hosts: [&[u8]; 6] = [b"a\"b", b"[x", b"a%zz", b"\xff", b"x.spin.internal", b"sale.example"];
    for (host, more) in
        hosts.into_iter().map(|host| (host, Vec::new())).chain([text, control, many].map(|more| (hosts[5], more)))
    {
        for path in lanes {
            let head = [format!("GET {path} HTTP/1.1\r\nhost: ").as_bytes(), host, b"\r\n", &more].concat();
            let status = status_of(Ipv4Addr::LOCALHOST, nginx.port(), &head).await;
            let refusals = ["400", "401", "404", "405", "431", "500"];
            assert!(status == "200" || refusals.contains(&&*status), "{}: {status}", String::from_utf8_lossy(&head));
        }
    }
    for target in [&b"/api/orders/demo.1?a=\xff"[..], b"/\xff", b"/api/nowhere?\xc3\xa4"] {
        let head = [b"GET ", target, b" HTTP/1.1\r\nhost: sale.example\r\n"].concat();
        let status = status_of(Ipv4Addr::LOCALHOST, nginx.port(), &head).await;
        assert!(["400", "404"].contains(&&*status), "{}: {status}", String::from_utf8_lossy(target));
    }
    for path in lanes {
        let response = app.http.get(path, "").await;
        assert!(response.status < 500, "{response:?}");
    }
    app.create_buyer(&activity, "ada").await;
}

/// nginx's own log, with the requests of a buyer, of an operator, and refused ones.
#[tokio::test(flavor = "multi_thread")]
async fn nginxs_log_has_no_secret_no_user_and_no_address() {
    const USERS: [&str; 2] = ["planted-ada@example.com", "planted-mallory"];
    const ADDRESS: &str = "203.0.113.77";
    let AppBehindNginx { app, nginx, _temp_dir } = start_behind_nginx();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, USERS[0]).await;
    let order_no = app.place_order(&activity, &buyer).await;
    app.http.get(&format!("/api/orders?before={order_no}&user={}", USERS[0]), &buyer.jwt).await.is(200);
    for path in [
        format!("/bans/user/{}", USERS[1]),
        format!("/bans/ip/{ADDRESS}"),
        format!("/strikes/{}", USERS[1]),
        format!("/bans/user/%2Fshop%2F{}", USERS[1]),
        format!("/strikes/.{}%2F1", USERS[1]),
        // Other spellings, which are no routes.
        format!("//bans/user/{}", USERS[1]),
        format!("/bans//user/{}", USERS[1]),
        format!("/%62ans/ip/{ADDRESS}"),
        format!("/strikes/{}/", USERS[1]),
        format!("/users/{}", USERS[1]),
        format!("/bans?before={}", USERS[1]),
    ] {
        app.call_admin(Method::GET, &path, &Value::Null).await;
        app.http.get(&format!("/api/admin{path}"), "planted-token").await;
    }
    let headers = [("x-forwarded-for", ADDRESS.to_owned()), ("referer", format!("https://shop.example/{}", USERS[1]))];
    app.http.send_with_headers(Method::GET, "/sale?ticket=planted-token", &headers, "").await.expect("an answer");
    let url = format!("{}/api/admin/bans/user/{}?code=planted-token", nginx.redirect_url(), USERS[1]);
    let redirect = client_builder().redirect(Policy::none()).build().expect("a client").get(url).send().await;
    assert_eq!(redirect.expect("an answer").status().as_u16(), 308);
    // Requests that nginx itself refuses.
    for path in [format!("/api/admin/strikes/{}", USERS[1]), format!("/api/admin/bans/ip/{ADDRESS}")] {
        let sent = app.http.send_with_headers(Method::PUT, &path, &[("cookie", "x".repeat(40_000))], "").await;
        assert_eq!(sent.expect("an answer").status, 400, "{path}");
    }
    app.http.send_with_headers(Method::GET, "/busy?last=1", &headers, "").await.expect("an answer");
    // Each worker writes its lines every five seconds.
    let text = support::eventually("the lines of both workers in nginx's log", async || {
        let text = nginx.logs();
        let expected = ["\"/busy\"", "\"/api/admin/bans/user/:name\"", "\"/api/orders\""];
        if expected.iter().all(|path| text.contains(path)) { Ok(text) } else { Err(text) }
    })
    .await;
    let tokens = [buyer.jwt.as_str(), &buyer.ticket, "planted-token", app.variables.get("admin_token"), "127.0.0.1"];
    for planted in USERS.into_iter().chain([ADDRESS]).chain(tokens) {
        let line = text.lines().find(|line| line.contains(planted) && !line.contains("notice"));
        assert_eq!(line, None, "nginx's log has {planted:?}");
    }
}
