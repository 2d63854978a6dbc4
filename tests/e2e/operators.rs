//! What operators send: bodies and parameters are checked as a whole, and a call that changes nothing leaves no trace.

use reqwest::Method;
use serde_json::{Value, json};
use support::{
    Response, TestActivity, TestApp,
    activity::{activity_spec, seconds_from_now, single_sku, unique_id},
};

/// Sends a call with `If-Match`.
async fn put_if(app: &TestApp, path: &str, version: &Value, spec: &Value) -> Response {
    let token = format!("Bearer {}", app.variables.get("admin_token"));
    let headers = [("authorization", token), ("if-match", format!("\"{version}\""))];
    let path = format!("/api/admin{path}");
    app.http.send_with_headers(Method::PUT, &path, &headers, spec.to_string()).await.expect("an answer")
}

/// The pointers of an answer's errors.
fn pointers(refused: &Response) -> Vec<String> {
    let document = refused.json();
    let errors = document["errors"].as_array().expect("errors");
    errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
}

#[tokio::test]
async fn an_operators_body_has_no_unknown_member_and_a_buyers_may() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let sale = format!("/activities/{}", activity.id);
    let spec = |pointer: &str| {
        let mut spec = activity_spec(&json!({ "eligibility": {}, "limits": { "user": { "count": 9, "seconds": 1 } } }));
        let (outer, name) = pointer.rsplit_once('/').expect("a pointer");
        spec.pointer_mut(outer).expect("an object")[name] = json!(3);
        spec
    };
    let of_sale = ["/per_usr", "/version", "/skus/0/nam", "/eligibility/levl", "/limits/usr", "/limits/user/second"];
    let mut calls = Vec::from(of_sale.map(|pointer| (Method::PUT, sale.clone(), spec(pointer), pointer)));
    calls.extend([
        (Method::POST, format!("{sale}/skus/a/restock"), json!({ "by": 1, "form": 10 }), "/form"),
        (Method::PUT, "/bans/user/mallory".to_owned(), json!({ "seconds": 5, "reasn": "x" }), "/reasn"),
        (Method::PUT, "/bans/ip/203.0.113.77".to_owned(), json!({ "seconds": 5, "reasn": "x" }), "/reasn"),
        (Method::PUT, "/shed".to_owned(), json!({ "on": true, "activity": activity.id }), "/activity"),
        (Method::POST, "/events/replay".to_owned(), json!({ "orderno": "x" }), "/orderno"),
        (Method::POST, format!("{sale}/pause"), json!({ "seconds": 60 }), "/seconds"),
        (Method::POST, format!("{sale}/rebuild"), json!({ "epoch": 7 }), "/epoch"),
        (Method::DELETE, "/bans/user/mallory".to_owned(), json!({ "reason": "x" }), "/reason"),
    ]);
    let before = app.call_admin(Method::GET, &sale, &Value::Null).await.is(200).body;
    for (method, path, body, pointer) in calls {
        app.call_admin(method, &path, &body).await.is_problem(400, "invalid_request").points_at(pointer);
    }
    assert_eq!(app.call_admin(Method::GET, &sale, &Value::Null).await.is(200).body, before);
    assert_eq!(app.call_admin(Method::GET, "/shed", &Value::Null).await.is(200).json(), json!({ "on": false }));

    let buyer = app.create_buyer(&activity, "ada").await;
    let mut reservation = TestApp::reservation_body(&activity, &buyer, "a", 1);
    reservation["nothing"] = json!({ "a": 1 });
    app.http.post(&format!("/api/activities/{}/orders", activity.id), "", &reservation).await.is(202);
}

#[tokio::test]
async fn all_wrong_members_of_a_body_are_named_at_once() {
    let app = TestApp::shared();
    let path = format!("/activities/{}", unique_id("wrong"));
    let put = async |spec: &Value| app.call_admin(Method::PUT, &path, spec).await.is_problem(400, "invalid_request");
    let refused = put(&json!({ "skus": [{ "sku": "a" }] })).await;
    assert_eq!(
        pointers(&refused),
        ["/skus/0/name", "/skus/0/price", "/skus/0/currency", "/skus/0/total", "/title", "/starts_at", "/ends_at"]
    );
    // Missing and unknown members, wrong types and violated rules together, and no errors that follow from others.
    let refused = put(&activity_spec(&json!({
        "titel": "x", "title": "", "starts_at": "tomorrow", "per_user": "3", "pay_timeout_seconds": 0,
        "limits": [], "human_check": "maybe",
        "skus": [{ "sku": "a b", "name": "A", "price": -1, "currency": "EUR", "total": 1.5 }, 7],
    })))
    .await;
    let mut found = pointers(&refused);
    found.sort_unstable();
    let expected = [
        "/human_check",
        "/limits",
        "/pay_timeout_seconds",
        "/per_user",
        "/skus/0/price",
        "/skus/0/sku",
        "/skus/0/total",
        "/skus/1",
        "/starts_at",
        "/titel",
        "/title",
    ];
    assert_eq!(found, expected, "{refused:?}");
    let refused = app.call_admin(Method::PUT, "/bans/user/mallory", &json!({ "reason": 7 })).await;
    assert_eq!(pointers(&refused.is_problem(400, "invalid_request")), ["/reason", "/seconds"]);
    // A buyer's, too.
    let activity = app.create_activity(json!({})).await;
    let refused = app.http.post(&format!("/api/activities/{}/orders", activity.id), "", &json!({ "sku": 7 })).await;
    assert_eq!(pointers(&refused.is_problem(400, "invalid_request")), ["/sku", "/quantity", "/ticket"]);
}

#[tokio::test]
async fn no_operators_route_ignores_a_parameter() {
    let app = TestApp::shared();
    let document: Value = serde_json::from_str(include_str!("../../static/openapi.json")).expect("JSON");
    let mut routes = 0;
    for (template, operations) in document["paths"].as_object().expect("paths") {
        let Some(path) = template.strip_prefix("/api/admin") else { continue };
        for method in ["GET", "PUT", "POST", "DELETE"] {
            if operations.get(method.to_lowercase()).is_none() {
                continue;
            }
            let path = format!("{}?limt=1&nothing", path.replace(['{', '}'], ""));
            let method = method.parse().expect("a method");
            let refused = app.call_admin(method, &path, &Value::Null).await.is_problem(400, "invalid_request");
            assert_eq!(pointers(&refused), ["?limt", "?nothing"]);
            routes += 1;
        }
    }
    assert!(routes > 30, "{routes}");
    app.call_admin(Method::GET, "/changes?limit=1&limit=2", &Value::Null).await.is_problem(400, "invalid_request");
    app.http.get("/api/activities?nothing=1", "").await.is(200);
}

#[tokio::test]
async fn events_are_sent_again_only_if_the_body_says_which() {
    let app = TestApp::shared();
    let replay = async |body: &Value| app.call_admin(Method::POST, "/events/replay", body).await;
    let order_no = "demo.01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for body in [
        json!(null),
        json!({}),
        json!({ "failed": false }),
        json!({ "order_no": null }),
        json!({ "failed": true, "order_no": order_no }),
    ] {
        replay(&body).await.of(&body).is_problem(400, "invalid_request");
    }
    for body in [json!({ "failed": true }), json!({ "order_no": order_no })] {
        replay(&body).await.is(202);
    }
}

#[tokio::test]
async fn a_draft_whose_end_is_past_is_not_put_on_sale() {
    let app = TestApp::shared();
    let path = format!("/activities/{}", unique_id("bygone"));
    let call = async |action: &str| app.call_admin(Method::POST, &format!("{path}/{action}"), &Value::Null).await;
    let past = json!({ "starts_at": seconds_from_now(-120), "ends_at": seconds_from_now(-60) });
    let [past, present] = [past, json!({})].map(|times| activity_spec(&times));
    app.call_admin(Method::PUT, &path, &past).await.is(200);
    let refused = call("publish").await.is_problem(409, "state_conflict").text("detail");
    assert!(refused.contains("end") && refused.contains("past"), "{refused}");
    assert_eq!(app.call_admin(Method::GET, &path, &Value::Null).await.is(200).text("state"), "draft");

    app.call_admin(Method::PUT, &path, &present).await.is(200);
    call("publish").await.is(200);
    call("pause").await.is(200);
    app.call_admin(Method::PUT, &path, &past).await.is(200);
    // One that was on sale is as it was before: a restored ledger resumes those that have ended, too.
    call("resume").await.is(200);
    call("publish").await.is(200);
}

/// The subjects of the changes that are recorded: those of this test are unique.
async fn recorded(app: &TestApp, subject: &str) -> usize {
    let changes = app.call_admin(Method::GET, "/changes?limit=50", &Value::Null).await.is(200).json();
    changes["items"].as_array().expect("changes").iter().filter(|change| change["subject"] == *subject).count()
}

#[tokio::test]
async fn a_repeated_call_changes_nothing_and_is_not_recorded() {
    let app = TestApp::dedicated();
    let TestActivity { id, .. } = app.create_activity(json!({})).await;
    let sale = format!("/activities/{id}");
    let mut spec = app.call_admin(Method::GET, &sale, &Value::Null).await.is(200).json();
    for member in ["id", "state", "version"] {
        spec.as_object_mut().expect("an activity").remove(member);
    }
    spec["title"] = json!("Another");
    let (post, put) = (Method::POST, Method::PUT);
    for (method, path, body) in [
        (put.clone(), sale.clone(), spec.clone()),
        (post.clone(), format!("{sale}/pause"), Value::Null),
        (put.clone(), sale.clone(), json!({ "title": "Paused" })),
        (post.clone(), format!("{sale}/resume"), Value::Null),
        (post.clone(), format!("{sale}/publish"), Value::Null),
        (put.clone(), format!("{sale}/announcement"), json!({ "en": "Soon." })),
        (put.clone(), format!("{sale}/announcement"), json!({})),
        (post, format!("{sale}/close"), Value::Null),
    ] {
        let body = if body.get("title").is_some() {
            let mut spec = spec.clone();
            spec["title"] = body["title"].clone();
            spec
        } else {
            body
        };
        let first = app.call_admin(method.clone(), &path, &body).await.is(200).json();
        let lines = recorded(&app, &id).await;
        let second = app.call_admin(method, &path, &body).await.is(200).json();
        assert_eq!(second, first, "{path}");
        assert_eq!(recorded(&app, &id).await, lines, "{path}");
    }
    let closed = app.call_admin(Method::GET, &sale, &Value::Null).await.is(200).json();
    assert_eq!((&closed["state"], &closed["title"]), (&json!("closed"), &json!("Paused")));

    // Others than sales: what is lifted, cleared or switched twice.
    app.call_admin(put.clone(), "/bans/user/mallory", &json!({ "seconds": 60 })).await.is(200);
    for (subject, lines) in [("mallory", 2), ("eve", 0)] {
        for _ in 0..2 {
            app.call_admin(Method::DELETE, &format!("/bans/user/{subject}"), &Value::Null).await.is(204);
            app.call_admin(Method::DELETE, &format!("/strikes/{subject}"), &Value::Null).await.is(204);
        }
        assert_eq!(recorded(&app, subject).await, lines, "{subject}");
    }
    let lines = recorded(&app, "").await;
    for (on, expected) in [(false, 0), (true, 1), (true, 1), (false, 2), (false, 2)] {
        app.call_admin(put.clone(), "/shed", &json!({ "on": on })).await.is(200);
        assert_eq!(recorded(&app, "").await - lines, expected, "shed: {on}");
    }
    app.call_admin(Method::POST, "/events/enable", &Value::Null).await.is(200);
    assert_eq!(recorded(&app, "").await - lines, 2, "the endpoint is enabled");
}

#[tokio::test]
async fn a_put_takes_no_restock_back() {
    let app = TestApp::shared();
    let TestActivity { id, .. } = app.create_activity(json!({})).await;
    let path = format!("/activities/{id}");
    let restock = json!({ "by": 5, "from": 10 });
    app.call_admin(Method::POST, &format!("{path}/skus/a/restock"), &restock).await.is(200);
    let version = app.call_admin(Method::GET, &path, &Value::Null).await.is(200).json()["version"].take();
    let from_file = activity_spec(&json!({ "title": "From a file" }));
    let refused = app.call_admin(Method::PUT, &path, &from_file).await.is_problem(409, "state_conflict").text("detail");
    for way in ["SKU a has a total of 15, not 10", "restock", "If-Match", &format!("\"{version}\"")] {
        assert!(refused.contains(way), "no {way:?}: {refused}");
    }
    // Other members can change without it, and totals with it.
    app.call_admin(Method::PUT, &path, &activity_spec(&json!({ "title": "B", "skus": single_sku(15) }))).await.is(200);
    put_if(&app, &path, &version, &from_file).await.is_problem(409, "state_conflict");
    let read = app.call_admin(Method::GET, &path, &Value::Null).await.is(200);
    assert_eq!(read.header("etag"), format!("\"{}\"", read.json()["version"]));
    let changed = put_if(&app, &path, &read.json()["version"], &from_file).await.is(200).json();
    assert_eq!((&changed["title"], &changed["skus"][0]["total"]), (&json!("From a file"), &json!(10)));
    app.call_admin(Method::POST, &format!("{path}/pause"), &Value::Null).await.is(200);
    let more = activity_spec(&json!({ "skus": single_sku(99) }));
    app.call_admin(Method::PUT, &path, &more).await.is_problem(409, "state_conflict");
}
