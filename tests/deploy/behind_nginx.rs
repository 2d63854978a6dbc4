//! The app itself behind nginx: a sale from the page to the payment, with one trusted hop (B4, G9).

use dev::{nginx::Nginx, root, scratch::Scratch};
use reqwest::Method;
use serde_json::{Value, json};

use support::{Http, TestApp, activity::units};

/// An app that trusts one hop, asked through nginx.
struct Behind {
    app: TestApp,
    nginx: Nginx,
    _scratch: Scratch,
}

fn behind_nginx() -> Behind {
    let scratch = Scratch::new().expect("a directory");
    let mut app = TestApp::with(|variables| variables.set("trusted_hops", "1"));
    let port = app.with_app(|app| app.url().rsplit_once(':').and_then(|(_, port)| port.parse().ok()));
    let nginx = Nginx::start(scratch.path(), &root::find().expect("the project"), &[port.expect("a port")]);
    let nginx = nginx.unwrap_or_else(|error| panic!("{error:#}"));
    app.http = Http::new(&nginx.url());
    Behind { app, nginx, _scratch: scratch }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_runs_behind_nginx_and_a_forged_address_changes_no_limit() {
    let Behind { app, nginx, _scratch } = behind_nginx();
    for path in ["/", "/sale?activity=demo", "/busy"] {
        let page = app.http.get(path, "").await.is(200);
        assert_eq!(page.header("cache-control"), "public, max-age=60");
        let same = [("if-none-match", page.header("etag").to_owned())];
        app.http.raw(Method::GET, path, &same, "").await.expect("an answer").is(304);
    }
    app.http.get("/no-such-page", "").await.is(404);
    app.http.get("/api/no-such-route", "").await.is_problem(404, "not_found");

    let sale = app.sale(json!({"skus": units(5)})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let order_no = app.order(&sale, &buyer).await;
    app.pay(&order_no, &buyer.jwt).await;
    app.wait_for(&order_no, &buyer.ticket, "paid").await;
    assert_eq!(app.settled(&sale).await, [4, 0, 1]);

    // Five tickets an hour for each address: three that came along for nothing are among them, or not.
    let limited = app.sale(json!({"limits": {"user": null, "ip": {"count": 5, "seconds": 3600}, "all": null}})).await;
    let path = format!("/api/activities/{}/ticket", limited.id);
    let mut statuses = vec![];
    for number in 0..10 {
        let headers = [
            ("authorization", format!("Bearer {}", app.sign_in(&format!("user-{number}")))),
            ("x-forwarded-for", format!("203.0.113.{number}, 198.51.100.{number}")),
            ("spin-client-addr", format!("192.0.2.{number}:1")),
        ];
        statuses.push(app.http.raw(Method::POST, &path, &headers, "{}").await.expect("an answer").status);
    }
    assert!(statuses.contains(&429) && statuses.last() == Some(&429), "{statuses:?}: {}", nginx.output());
    elsewhere_is_another_address(&app, &nginx, &path).await;
}

#[cfg(not(target_os = "linux"))]
async fn elsewhere_is_another_address(_: &TestApp, _: &Nginx, _: &str) {}

/// What one address has used up, another has not: so the limit counts what nginx sees, not nginx.
#[cfg(target_os = "linux")]
async fn elsewhere_is_another_address(app: &TestApp, nginx: &Nginx, path: &str) {
    let elsewhere = std::net::IpAddr::from([127, 0, 0, 2]);
    let client = reqwest::Client::builder().no_proxy().local_address(elsewhere).build().expect("a client");
    let http = Http::with_client(client, &nginx.url());
    http.post(path, &app.sign_in("somebody-else"), &json!({})).await.is(201);
    app.http.post(path, &app.sign_in("somebody-else"), &Value::Null).await.is_problem(429, "rate_limited");
}
