//! Pages of the origins in `cors_origins` may call the buyers' routes, and no other routes (G13).

use domain::http::routes::TABLES;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Response, TestApp};

const SHOP: &str = "https://shop.example";
const BUYERS_FUNCTIONS: [&str; 5] = ["activity", "admission", "reserve", "order-status", "checkout"];

fn app() -> TestApp {
    TestApp::with_variables(|variables| variables.set("cors_origins", format!("{SHOP}, http://localhost:8080")))
}

/// Sends a request from a page of `origin`.
async fn send(app: &TestApp, origin: &str, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Response {
    let headers = [("origin", origin.to_owned()), ("content-type", "application/json".to_owned())];
    app.http.send_with_headers(method, path, &headers, body).await.expect("an answer")
}

/// Sends what a browser sends before a request that is not simple.
async fn send_preflight(app: &TestApp, origin: &str, path: &str) -> Response {
    let headers = [("origin", origin), ("access-control-request-method", "POST")];
    let headers = headers.map(|(name, value)| (name, value.to_owned()));
    app.http.send_with_headers(Method::OPTIONS, path, &headers, "").await.expect("an answer")
}

#[track_caller]
fn assert_readable(response: &Response, origin: &str) {
    assert_eq!(response.header("access-control-allow-origin"), origin, "{response:?}");
    assert!(response.header("vary").ends_with("origin"), "{response:?}");
    assert!(response.header("access-control-expose-headers").contains("Retry-After"), "{response:?}");
    assert_eq!(response.header("access-control-allow-credentials"), "", "{response:?}");
}

#[track_caller]
fn assert_not_shared(response: &Response) {
    let header = response.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
    assert_eq!(header, None, "{response:?}");
}

/// The method and path of every route of these functions, for an activity that exists.
pub fn routes(activity: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(Method, String)> {
    let tables = TABLES.iter().filter(|(function, _)| is_wanted(function));
    let path = |pattern: &str| pattern.replace(":activity", activity).replace(':', "").replace("...", "any");
    tables.flat_map(|(_, routes)| routes.iter().map(|route| (route.method.clone(), path(route.pattern)))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_allowed_origin_reads_every_answer_of_the_buyers_routes() {
    let app = app();
    let activity = app.create_activity(json!({})).await;
    let routes = routes(&activity.id, |function| BUYERS_FUNCTIONS.contains(&function));
    assert!(routes.len() >= 12, "{routes:?}");
    for (method, path) in routes {
        for origin in [SHOP, "http://localhost:8080"] {
            let preflight = send_preflight(&app, origin, &path).await.is(204);
            assert_readable(&preflight, origin);
            assert!(preflight.header("access-control-allow-methods").contains("POST"), "{preflight:?}");
            assert!(preflight.header("access-control-allow-headers").contains("authorization"), "{preflight:?}");
            assert_eq!(preflight.header("access-control-max-age"), "7200");
            // Without a token or a body: an answer of the route, or a refusal.
            assert_readable(&send(&app, origin, method.clone(), &path, "").await, origin);
        }
        assert_readable(&send(&app, SHOP, Method::DELETE, &path, "").await.is(405), SHOP);
        if method == Method::POST {
            assert_readable(&send(&app, SHOP, method.clone(), &path, "x".repeat(20_000)).await.is(413), SHOP);
        }
        for origin in ["https://evil.example", "null", "https://shop.example:8443"] {
            assert_not_shared(&send(&app, origin, method.clone(), &path, "").await);
            assert_not_shared(&send_preflight(&app, origin, &path).await.is(405));
        }
    }
    let buyer = app.create_buyer(&activity, "ada").await;
    let body = TestApp::reservation_body(&activity, &buyer, "a", 1).to_string();
    let path = format!("/api/activities/{}/orders", activity.id);
    assert_readable(&send(&app, SHOP, Method::POST, &path, body).await.is(202), SHOP);
    // The modules of the client, here one that is missing.
    assert_readable(&send(&app, SHOP, Method::GET, "/client/none.js", "").await.is(404), SHOP);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_limits_are_readable_and_preflights_spend_none() {
    let app = app();
    let limit = json!({"limits": {"user": {"count": 1, "seconds": 3600}, "ip": null, "all": null}});
    let activity = app.create_activity(limit).await;
    let path = format!("/api/activities/{}/ticket", activity.id);
    let jwt = app.sign_in("ada");
    let ask = async || {
        let headers = [("origin", SHOP.to_owned()), ("authorization", format!("Bearer {jwt}"))];
        app.http.send_with_headers(Method::POST, &path, &headers, "{}").await.expect("an answer")
    };
    let mut statuses = vec![];
    for _ in 0..40 {
        send_preflight(&app, SHOP, &path).await.is(204);
        let response = ask().await;
        assert_readable(&response, SHOP);
        statuses.push(response.status);
    }
    assert_eq!((statuses[0], statuses.last()), (201, Some(&429)), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_routes_callbacks_and_pages_are_for_no_other_origin() {
    let app = app();
    let routes = routes("demo", |function| !BUYERS_FUNCTIONS.contains(&function));
    assert!(routes.iter().any(|(_, path)| path == "/api/admin/bans"), "{routes:?}");
    for (method, path) in routes {
        let preflight = send_preflight(&app, SHOP, &path).await;
        assert_ne!(preflight.status, 204, "{preflight:?}");
        assert_not_shared(&preflight);
        assert_not_shared(&send(&app, SHOP, method, &path, "").await);
    }
    assert_not_shared(&send(&app, SHOP, Method::GET, "/api/no-such-route", "").await.is(404));
    assert_not_shared(&send(&app, SHOP, Method::GET, "/", "").await.is(200));
}

#[tokio::test]
async fn without_the_variable_no_other_origin_may_call() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    for (method, path) in routes(&activity.id, |function| BUYERS_FUNCTIONS.contains(&function)) {
        let response = send(&app, SHOP, method, &path, Value::Null.to_string()).await;
        assert_not_shared(&response);
        assert_eq!(response.header("vary"), "", "{response:?}");
        assert_not_shared(&send_preflight(&app, SHOP, &path).await.is(405));
    }
}
