//! Authentication and authorisation: forged, expired and foreign sign-in tokens and tickets (B1, B2, B7).

use jsonwebtoken::Algorithm;
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    Buyer, Claims, TestApp,
    activity::{activity_spec, seconds_from_now, unique_id},
    eventually,
};
use time::OffsetDateTime;

use crate::cors;

#[tokio::test]
async fn only_an_unexpired_token_of_our_issuer_and_audience_is_accepted() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let variables = &app.variables;
    let valid_claims = Claims::for_user("ada", variables);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let signed = valid_claims.sign(variables);
    let with_claim = |name: &str, value: Value| valid_claims.clone().with_claim(name, value).sign(variables);
    // While the sandbox is on, the reason is in the detail.
    for (case, token, reason) in [
        ("none at all", String::new(), "Bearer"),
        ("noise", "noise".to_owned(), "malformed"),
        ("no signature", format!("{}.", signed.rsplit_once('.').expect("a token").0), "signature"),
        (
            "another key",
            valid_claims.sign_with(Algorithm::HS256, "another key that is long enough to sign"),
            "signature",
        ),
        ("another algorithm", valid_claims.sign_with(Algorithm::HS512, variables.get("jwt_key")), "algorithm"),
        ("a user of 8 kB", with_claim("sub", json!("u".repeat(8_000))), "sub"),
        ("no user", with_claim("sub", json!(null)), "sub"),
        ("too many groups", with_claim("groups", json!("g".repeat(10_000))), "too long"),
        ("expired", with_claim("exp", json!(now - 3600)), "expired"),
        ("another issuer", with_claim("iss", json!("https://evil.example")), "iss"),
        ("a last slash", with_claim("iss", json!(format!("{}/", variables.get("jwt_issuer")))), "iss"),
        ("another audience", with_claim("aud", json!("another shop")), "aud"),
    ] {
        app.request_ticket(&activity.id, &token).await.of(case).is_problem(401, "unauthenticated");
        let response = app.http.get("/api/orders", &token).await.of(case).is_problem(401, "unauthenticated");
        assert!(response.text("detail").contains(reason), "{case}: {response:?}");
    }
    app.request_ticket(&activity.id, &signed).await.is(201);
    let large = with_claim("groups", json!(vec!["0c2e6ad4-72a7-4d3c-9d57-0123456789ab"; 200]));
    app.request_ticket(&activity.id, &large).await.is(201);
    // The scheme `Bearer` is case-insensitive.
    let headers = [("authorization", format!("bearer {signed}"))];
    let response = app.http.send_with_headers(Method::GET, "/api/orders", &headers, "").await.expect("an answer");
    response.is(200);
}

/// `Date.now() / 1000 + 600` is a time with a fraction (RFC 7519, section 2).
#[tokio::test]
async fn a_token_signs_in_whatever_its_optional_claims_are_and_the_reason_of_a_refusal_is_logged_and_counted() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let valid_claims = Claims::for_user("ada", &app.variables);
    let expiry = OffsetDateTime::now_utc().unix_timestamp() as f64 + 600.25;
    for (name, value) in [("exp", json!(expiry)), ("level", json!("3")), ("member", json!(1)), ("nbf", json!([]))] {
        let token = valid_claims.clone().with_claim(name, value).sign(&app.variables);
        app.request_ticket(&activity.id, &token).await.is(201);
        app.http.get("/api/orders", &token).await.is(200);
    }
    let refused = valid_claims.clone().with_claim("exp", json!("soon")).sign(&app.variables);
    app.request_ticket(&activity.id, &refused).await.is_problem(401, "unauthenticated");
    eventually("the reason in the statistics", async || {
        // A valid request makes the instance report its count to Redis.
        app.request_ticket(&activity.id, &app.sign_in("ben")).await;
        let stats = app.stats(&activity.id).await;
        if stats["refused_sign_ins"] == json!({"exp": 1}) { Ok(()) } else { Err(stats) }
    })
    .await;
    // The log is read through a pipe and may arrive after the response.
    eventually("the reason in the log", async || {
        let log = app.log();
        let is_reason = |line: &str| line.contains("sign-in refused") && line.contains(r#""because":"exp""#);
        if log.lines().any(is_reason) { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test]
async fn a_changed_ticket_or_one_for_another_activity_reserves_nothing() {
    let app = TestApp::shared();
    let (activity, other_activity) = (app.create_activity(json!({})).await, app.create_activity(json!({})).await);
    let buyer = app.create_buyer(&activity, "ada").await;
    let other_buyer = app.create_buyer(&other_activity, "ada").await;
    let with_ticket = |ticket: &str| Buyer { ticket: ticket.to_owned(), ..buyer.clone() };
    app.reserve(&activity, &other_buyer, "a", 1).await.is_problem(401, "ticket_invalid");
    let changed = buyer.ticket.replace(".0.", ".9.");
    for ticket in ["", "noise", &"t".repeat(10_000), &buyer.jwt, &changed, &format!("{}A", buyer.ticket)] {
        app.reserve(&activity, &with_ticket(ticket), "a", 1).await.is_problem(401, "ticket_invalid");
    }
    assert_eq!(app.finish_and_count(&activity).await, [10, 0, 0]);
    app.reserve(&activity, &buyer, "a", 1).await.is(202);
}

#[tokio::test]
async fn the_ticket_or_token_of_another_user_neither_shows_nor_changes_an_order() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"per_user": 2})).await;
    let (ada, eve) = (app.create_buyer(&activity, "ada").await, app.create_buyer(&activity, "eve").await);
    let order_no = app.place_order(&activity, &ada).await;
    app.place_order(&activity, &eve).await;
    app.get_order(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    app.get_order(&order_no, &eve.ticket).await.is_problem(404, "not_found");
    app.cancel(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    app.checkout(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    app.refund(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    // Another ticket of the same user is not valid for this order.
    let second_buyer = app.create_buyer(&activity, "ada").await;
    app.get_order(&order_no, &second_buyer.ticket).await.is_problem(404, "not_found");
    app.get_order(&order_no, "").await.is_problem(401, "unauthenticated");
    let mine = app.http.get("/api/orders", &eve.jwt).await.is(200);
    assert!(!mine.body.contains(&order_no), "{mine:?}");
    assert_eq!(app.get_order(&order_no, &ada.ticket).await.is(200).text("status"), "pending_payment");
}

#[tokio::test]
async fn an_activity_for_members_of_a_level_and_a_group_goes_by_the_claims_of_the_token() {
    let app = TestApp::shared();
    let eligibility = json!({"members_only": true, "min_level": 3, "groups": ["vip"], "allow": ["ben"]});
    let activity = app.create_activity(json!({ "eligibility": eligibility })).await;
    for (requires, user, member, level, groups) in [
        ("", "ada", true, 3, json!(["staff", "vip"])),
        ("", "ada", true, 3, json!("vip")),
        ("", "ben", true, 4, json!(null)),
        ("members", "ada", false, 9, json!("vip")),
        ("level", "ada", true, 2, json!("vip")),
        ("members", "ben", false, 0, json!(null)),
        ("list", "eve", true, 9, json!(["vips", "VIP", 7])),
        ("list", "eve", true, 9, json!({"vip": true})),
    ] {
        let claims = Claims::for_user(user, &app.variables).with_claim("member", json!(member));
        let token = claims.with_claim("level", json!(level)).with_claim("groups", groups).sign(&app.variables);
        let response = app.request_ticket(&activity.id, &token).await;
        match requires {
            "" => drop(response.is(201)),
            _ => assert_eq!(response.is_problem(403, "not_eligible").text("requires"), requires),
        }
    }
    app.request_ticket(&activity.id, &app.sign_in("ada")).await.is_problem(403, "not_eligible");
    let seen = app.http.get(&format!("/api/activities/{}", activity.id), "").await.is(200);
    assert_eq!((seen.json()["eligibility"]["invited_only"].as_bool(), seen.body.contains("vip")), (Some(true), false));
}

#[tokio::test]
async fn tickets_are_issued_shortly_before_the_start_and_not_earlier() {
    let app = TestApp::shared();
    for (starts_in, status) in [(3_600 * 24, 403), (60, 201)] {
        let id = unique_id("soon");
        let starts = json!({"starts_at": seconds_from_now(starts_in), "ends_at": seconds_from_now(starts_in + 60)});
        app.call_admin(Method::PUT, &format!("/activities/{id}"), &activity_spec(&starts)).await.is(200);
        app.call_admin(Method::POST, &format!("/activities/{id}/publish"), &Value::Null).await.is(200);
        let response = app.request_ticket(&id, &app.sign_in("ada")).await.is(status);
        assert!(status == 201 || response.code() == "not_open", "{response:?}");
    }
}

#[tokio::test]
async fn the_admin_api_accepts_only_the_admin_token() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let routes = cors::routes(&activity.id, |function| function == "admin");
    assert!(routes.len() > 20, "{routes:?}");
    for token in ["", "wrong", app.variables.get("cron_token"), &app.sign_in("admin")] {
        for (method, path) in &routes {
            let body = json!({"on": true, "by": 1, "seconds": 1});
            app.http.send(method.clone(), path, token, &body).await.is_problem(401, "unauthenticated");
        }
    }
    let buyer = app.create_buyer(&activity, "ada").await;
    app.reserve(&activity, &buyer, "a", 1).await.is(202);
}
