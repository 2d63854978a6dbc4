//! Authentication and authorisation: forged, expired and foreign sign-in tokens and tickets (B1, B2, B7).

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    Buyer, Claims, TestApp,
    activity::{activity_spec, seconds_from_now, unique_id},
    eventually,
};
use time::OffsetDateTime;

#[tokio::test]
async fn only_an_unexpired_token_of_our_issuer_and_audience_is_accepted() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let variables = &app.variables;
    let valid_claims = Claims::for_user("ada", variables);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let signed = valid_claims.sign(variables);
    let (header, claims_and_signature) = signed.split_once('.').expect("a token");
    let (claims, signature) = claims_and_signature.split_once('.').expect("a token");
    let encode_part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let none_header = encode_part(&json!({"alg": "none", "typ": "JWT"}));
    let other_claims = encode_part(&json!({"sub": "eve", "exp": now + 3600}));
    let tokens = [
        ("none at all", String::new()),
        ("noise", "noise".to_owned()),
        ("two dots", "..".to_owned()),
        ("no algorithm", format!("{none_header}.{claims}.")),
        ("no algorithm, with a signature", format!("{none_header}.{claims}.{signature}")),
        ("no signature", format!("{header}.{claims}.")),
        ("changed claims", format!("{header}.{other_claims}.{signature}")),
        ("another key", valid_claims.sign_with(Algorithm::HS256, "another key that is long enough to sign")),
        ("another algorithm", valid_claims.sign_with(Algorithm::HS512, variables.get("jwt_key"))),
        ("no user", valid_claims.clone().with_claim("sub", Value::Null).sign(variables)),
        ("an empty user", valid_claims.clone().with_claim("sub", json!("")).sign(variables)),
        ("a number as user", valid_claims.clone().with_claim("sub", json!(7)).sign(variables)),
        ("a control character in the user", valid_claims.clone().with_claim("sub", json!("a\nb")).sign(variables)),
        ("a user of 10 kB", valid_claims.clone().with_claim("sub", json!("u".repeat(10_000))).sign(variables)),
        ("expired", valid_claims.clone().with_claim("exp", json!(now - 3600)).sign(variables)),
        ("no expiry", valid_claims.clone().with_claim("exp", Value::Null).sign(variables)),
        ("a word as expiry", valid_claims.clone().with_claim("exp", json!("never")).sign(variables)),
        ("another issuer", valid_claims.clone().with_claim("iss", json!("https://evil.example")).sign(variables)),
        ("no issuer", valid_claims.clone().with_claim("iss", Value::Null).sign(variables)),
        ("another audience", valid_claims.clone().with_claim("aud", json!("another shop")).sign(variables)),
        ("no audience", valid_claims.clone().with_claim("aud", Value::Null).sign(variables)),
    ];
    for (case, token) in tokens {
        let response = app.request_ticket(&activity.id, &token).await;
        assert_eq!((response.status, response.code().as_str()), (401, "unauthenticated"), "{case}: {response:?}");
        let response = app.http.get("/api/orders", &token).await;
        assert_eq!((response.status, response.code().as_str()), (401, "unauthenticated"), "{case}: {response:?}");
    }
    app.request_ticket(&activity.id, &signed).await.is(201);
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
    let mut invalid_tickets =
        vec![String::new(), "noise".to_owned(), "1......".to_owned(), "t".repeat(10_000), buyer.jwt.clone()];
    // Change one character at a time, in every eighth place; then shorten and extend the ticket.
    for position in (0..buyer.ticket.len()).step_by(8) {
        let mut bytes = buyer.ticket.clone().into_bytes();
        bytes[position] = if bytes[position] == b'7' { b'8' } else { b'7' };
        invalid_tickets.push(String::from_utf8(bytes).expect("ASCII"));
    }
    invalid_tickets.push(buyer.ticket[..buyer.ticket.len() - 1].to_owned());
    invalid_tickets.push(format!("{}A", buyer.ticket));
    for ticket in invalid_tickets {
        app.reserve(&activity, &with_ticket(&ticket), "a", 1).await.is_problem(401, "ticket_invalid");
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
    let response = app.get_order(&order_no, "").await;
    response.is_problem(401, "unauthenticated");
    let mine = app.http.get("/api/orders", &eve.jwt).await.is(200);
    assert!(!mine.body.contains(&order_no), "{mine:?}");
    app.wait_for_status(&order_no, &ada.jwt, "pending_payment").await;
    app.get_order(&order_no, &ada.ticket).await.is(200);
}

#[tokio::test]
async fn an_activity_for_members_of_a_level_refuses_every_other_user() {
    let app = TestApp::shared();
    let eligibility = json!({"members_only": true, "min_level": 3, "allow": ["ada", "ben"]});
    let activity = app.create_activity(json!({ "eligibility": eligibility })).await;
    let token = |user: &str, member: bool, level: i64| {
        let claims = Claims::for_user(user, &app.variables)
            .with_claim("member", json!(member))
            .with_claim("level", json!(level));
        claims.sign(&app.variables)
    };
    for (user, member, level) in [("ada", false, 9), ("ada", true, 2), ("eve", true, 9), ("ben", false, 0)] {
        app.request_ticket(&activity.id, &token(user, member, level)).await.is_problem(403, "not_eligible");
    }
    app.request_ticket(&activity.id, &app.sign_in("ada")).await.is_problem(403, "not_eligible");
    app.request_ticket(&activity.id, &token("ada", true, 3)).await.is(201);
    app.request_ticket(&activity.id, &token("ben", true, 4)).await.is(201);
}

#[tokio::test]
async fn an_activity_for_a_group_takes_the_groups_of_the_token() {
    let app = TestApp::shared();
    let eligibility = json!({"groups": ["vip"], "allow": ["ben"]});
    let activity = app.create_activity(json!({ "eligibility": eligibility })).await;
    let ask = async |user: &str, groups: Value| {
        let token = Claims::for_user(user, &app.variables).with_claim("groups", groups).sign(&app.variables);
        app.request_ticket(&activity.id, &token).await
    };
    for groups in [json!(null), json!([]), json!(["vips", "VIP", 7]), json!({"vip": true})] {
        ask("eve", groups).await.is_problem(403, "not_eligible");
    }
    for groups in [json!(["staff", "vip"]), json!("vip")] {
        ask("ada", groups).await.is(201);
    }
    ask("ben", json!(null)).await.is(201);
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
    let id = &activity.id;
    let routes = [
        (Method::GET, "/api/admin/activities".to_owned()),
        (Method::PUT, format!("/api/admin/activities/{id}")),
        (Method::DELETE, format!("/api/admin/activities/{id}")),
        (Method::POST, format!("/api/admin/activities/{id}/publish")),
        (Method::POST, format!("/api/admin/activities/{id}/pause")),
        (Method::POST, format!("/api/admin/activities/{id}/resume")),
        (Method::POST, format!("/api/admin/activities/{id}/close")),
        (Method::POST, format!("/api/admin/activities/{id}/rebuild")),
        (Method::POST, format!("/api/admin/activities/{id}/skus/a/restock")),
        (Method::GET, format!("/api/admin/activities/{id}/stats")),
        (Method::GET, format!("/api/admin/activities/{id}/audit")),
        (Method::GET, "/api/admin/dead-letters".to_owned()),
        (Method::POST, format!("/api/admin/dead-letters/{id}.01ARZ3NDEKTSV4RRFFQ69G5FAV/replay")),
        (Method::GET, "/api/admin/bans".to_owned()),
        (Method::PUT, "/api/admin/bans/user/ada".to_owned()),
        (Method::DELETE, "/api/admin/bans/user/ada".to_owned()),
        (Method::PUT, "/api/admin/bans/ip/192.0.2.1".to_owned()),
        (Method::GET, "/api/admin/strikes/ada".to_owned()),
        (Method::DELETE, "/api/admin/strikes/ada".to_owned()),
        (Method::GET, "/api/admin/shed".to_owned()),
        (Method::PUT, "/api/admin/shed".to_owned()),
    ];
    for token in ["", "wrong", app.variables.get("cron_token"), &app.sign_in("admin")] {
        for (method, path) in &routes {
            let response =
                app.http.send(method.clone(), path, token, &json!({"on": true, "by": 1, "seconds": 1})).await;
            assert_eq!((response.status, response.code().as_str()), (401, "unauthenticated"), "{response:?}");
        }
    }
    let buyer = app.create_buyer(&activity, "ada").await;
    app.reserve(&activity, &buyer, "a", 1).await.is(202);
}
