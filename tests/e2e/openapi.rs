//! The app and its OpenAPI document (G11). The test client checks every response of every test against the document.

use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use support::{OpenApi, Response, TestApp};

#[tokio::test]
async fn the_app_serves_the_document() {
    let served = TestApp::shared().http.get("/openapi.json", "").await.is(200);
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.header("access-control-allow-origin"), "*", "{:?}", served.headers);
    for other in ["/", "/robots.txt"] {
        let headers = TestApp::shared().http.get(other, "").await.is(200).headers;
        assert!(!headers.contains_key("access-control-allow-origin"), "{other}");
    }
    let document: Value = serde_json::from_str(include_str!("../../static/openapi.json")).expect("JSON");
    assert_eq!(served.json(), document);
}

#[tokio::test]
async fn a_method_that_a_route_does_not_have_is_refused_with_those_that_it_has() {
    let app = TestApp::shared();
    let document: Value = serde_json::from_str(include_str!("../../static/openapi.json")).expect("JSON");
    for (template, operations) in document["paths"].as_object().expect("paths") {
        let path = template.replace(['{', '}'], "");
        let operations = operations.as_object().expect("operations").keys().filter(|name| *name != "parameters");
        let mut documented: Vec<_> = operations.map(|name| name.to_uppercase()).collect();
        if documented.contains(&"GET".to_owned()) {
            documented.push("HEAD".to_owned());
        }
        documented.sort_unstable();
        for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            if documented.contains(&method.to_string()) {
                continue;
            }
            let token = app.variables.get("admin_token");
            let refused = app.http.send(method, &path, token, &Value::Null).await.is_problem(405, "method_not_allowed");
            let mut allowed: Vec<_> = refused.header("allow").split(", ").collect();
            allowed.sort_unstable();
            assert_eq!(allowed, documented, "{refused:?}");
        }
    }
}

/// A document with one route, whose status 200 has a header and a body.
fn document() -> OpenApi {
    let count = json!({"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}});
    let content =
        json!({"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Count"}}}});
    let headers = json!({"x-request-id": {"required": true, "schema": {"pattern": "^[a-z]+$"}}, "age": {"schema": {"type": "integer"}}});
    OpenApi::new(json!({
        "components": {"schemas": {"Count": count}},
        "paths": {"/api/counts/{name}": {"get": {"responses": {"200": {"headers": headers, "content": content}, "204": {}}}}},
    }))
}

/// The result of checking a response to a request.
fn check(request: &str, status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Result<(), String> {
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value"))).collect();
    document().check(&Response { request: request.to_owned(), status, headers, body: body.to_owned() })
}

const HEADERS: [(&str, &str); 2] = [("content-type", "application/json; charset=utf-8"), ("x-request-id", "a")];

#[test]
fn a_response_that_the_document_has_is_accepted() {
    assert_eq!(check("GET /api/counts/a?b=/c", 200, &HEADERS, r#"[{"count": 1}]"#), Ok(()));
    assert_eq!(check("GET /api/counts/a", 204, &[], ""), Ok(()));
    assert_eq!(check("GET /sandbox/a", 418, &[], ""), Ok(()));
}

#[test]
fn a_response_that_the_document_does_not_have_is_refused_with_its_route_status_and_pointer() {
    let path = "GET /api/counts/a";
    let more = |name, value| [HEADERS[0], HEADERS[1], (name, value)];
    for (result, expected) in [
        (check("GET /api/counts", 200, &HEADERS, "[]"), "GET /api/counts is not in the document, and answers 200"),
        (check("GET /api/counts/a/b", 200, &HEADERS, "[]"), "GET /api/counts/a/b is not in"),
        (
            check("PUT /api/counts/a", 200, &HEADERS, "[]"),
            "PUT /api/counts/{name}: 200: the document does not have this method",
        ),
        (check(path, 201, &HEADERS, "[]"), "GET /api/counts/{name}: 201 is not in the document"),
        (check(path, 204, &[], "x"), "204: no body is documented"),
        (check(path, 200, &HEADERS[..1], "[]"), "200: no x-request-id"),
        (check(path, 200, &[HEADERS[0], ("x-request-id", "A")], "[]"), "200: x-request-id: at \"\""),
        (check(path, 200, &more("age", "x"), "[]"), "200: age: at \"\""),
        (
            check(path, 200, &[("content-type", "text/plain"), HEADERS[1]], "[]"),
            "the type \"text/plain\" is not documented",
        ),
        (check(path, 200, &HEADERS, "["), "no JSON"),
        (check(path, 200, &HEADERS, "{}"), "200: at \"\""),
        (check(path, 200, &HEADERS, r#"[{"count": "1"}]"#), "GET /api/counts/{name}: 200: at \"/0/count\""),
        (check(path, 200, &HEADERS, r#"[{"count": 1, "other": 1}]"#), "200: at \"/0\""),
    ] {
        let error = result.expect_err(expected);
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}
