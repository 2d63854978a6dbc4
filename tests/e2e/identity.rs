//! Who may do what: sign-in tokens and tickets, forged, expired, borrowed (B1, B2, B7).

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;

use support::{
    Buyer, Claims, TestApp,
    activity::{description, in_seconds, new_id},
};

#[tokio::test]
async fn only_a_token_of_our_issuer_for_us_that_has_not_expired_is_a_sign_in() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let variables = &app.variables;
    let good = Claims::of("ada", variables);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let signed = good.sign(variables);
    let (head, rest) = signed.split_once('.').expect("a token");
    let (claims, signature) = rest.split_once('.').expect("a token");
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let none = part(&json!({"alg": "none", "typ": "JWT"}));
    let other_claims = part(&json!({"sub": "eve", "exp": now + 3600}));
    let tokens = [
        ("none at all", String::new()),
        ("noise", "noise".to_owned()),
        ("two dots", "..".to_owned()),
        ("no algorithm", format!("{none}.{claims}.")),
        ("no algorithm, with a signature", format!("{none}.{claims}.{signature}")),
        ("no signature", format!("{head}.{claims}.")),
        ("changed claims", format!("{head}.{other_claims}.{signature}")),
        ("another key", good.sign_with(Algorithm::HS256, "another key that is long enough to sign")),
        ("another algorithm", good.sign_with(Algorithm::HS512, variables.get("jwt_key"))),
        ("no user", good.clone().with("sub", Value::Null).sign(variables)),
        ("an empty user", good.clone().with("sub", json!("")).sign(variables)),
        ("a number as user", good.clone().with("sub", json!(7)).sign(variables)),
        ("a control character in the user", good.clone().with("sub", json!("a\nb")).sign(variables)),
        ("a user of 10 kB", good.clone().with("sub", json!("u".repeat(10_000))).sign(variables)),
        ("expired", good.clone().with("exp", json!(now - 3600)).sign(variables)),
        ("no expiry", good.clone().with("exp", Value::Null).sign(variables)),
        ("a word as expiry", good.clone().with("exp", json!("never")).sign(variables)),
        ("another issuer", good.clone().with("iss", json!("https://evil.example")).sign(variables)),
        ("no issuer", good.clone().with("iss", Value::Null).sign(variables)),
        ("another audience", good.clone().with("aud", json!("another shop")).sign(variables)),
        ("no audience", good.clone().with("aud", Value::Null).sign(variables)),
    ];
    for (what, token) in tokens {
        let answer = app.ticket(&sale.id, &token).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{what}: {answer:?}");
        let answer = app.http.get("/api/orders", &token).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{what}: {answer:?}");
    }
    app.ticket(&sale.id, &signed).await.is(201);
    // "Bearer" is a word of any case.
    let headers = [("authorization", format!("bearer {signed}"))];
    let answer = app.http.raw(Method::GET, "/api/orders", &headers, "").await.expect("an answer");
    answer.is(200);
}

#[tokio::test]
async fn a_changed_ticket_or_one_for_another_sale_reserves_nothing() {
    let app = TestApp::shared();
    let (sale, other) = (app.sale(json!({})).await, app.sale(json!({})).await);
    let buyer = app.buyer(&sale, "ada").await;
    let of_the_other = app.buyer(&other, "ada").await;
    let with = |ticket: &str| Buyer { ticket: ticket.to_owned(), ..buyer.clone() };
    app.reserve(&sale, &of_the_other, "a", 1).await.is_problem(401, "ticket_invalid");
    let mut wrong =
        vec![String::new(), "noise".to_owned(), "1......".to_owned(), "t".repeat(10_000), buyer.jwt.clone()];
    // Every part of it, one character at a time in every eighth place; and cut short.
    for at in (0..buyer.ticket.len()).step_by(8) {
        let mut bytes = buyer.ticket.clone().into_bytes();
        bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
        wrong.push(String::from_utf8(bytes).expect("ASCII"));
    }
    wrong.push(buyer.ticket[..buyer.ticket.len() - 1].to_owned());
    wrong.push(format!("{}A", buyer.ticket));
    for ticket in wrong {
        app.reserve(&sale, &with(&ticket), "a", 1).await.is_problem(401, "ticket_invalid");
    }
    assert_eq!(app.settled(&sale).await, [10, 0, 0]);
    app.reserve(&sale, &buyer, "a", 1).await.is(202);
}

#[tokio::test]
async fn a_ticket_or_a_token_of_somebody_else_shows_no_order_and_moves_none() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"per_user": 2})).await;
    let (ada, eve) = (app.buyer(&sale, "ada").await, app.buyer(&sale, "eve").await);
    let order_no = app.order(&sale, &ada).await;
    app.order(&sale, &eve).await;
    app.status(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    app.status(&order_no, &eve.ticket).await.is_problem(404, "not_found");
    app.cancel(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    app.checkout(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    app.refund(&order_no, &eve.jwt).await.is_problem(404, "not_found");
    // Another ticket of the same user is not the ticket of this order.
    let again = app.buyer(&sale, "ada").await;
    app.status(&order_no, &again.ticket).await.is_problem(404, "not_found");
    let answer = app.status(&order_no, "").await;
    answer.is_problem(401, "unauthenticated");
    let mine = app.http.get("/api/orders", &eve.jwt).await.is(200);
    assert!(!mine.body.contains(&order_no), "{mine:?}");
    app.wait_for(&order_no, &ada.jwt, "pending_payment").await;
    app.status(&order_no, &ada.ticket).await.is(200);
}

#[tokio::test]
async fn a_sale_for_members_of_a_level_is_for_nobody_else() {
    let app = TestApp::shared();
    let eligibility = json!({"members_only": true, "min_level": 3, "allow": ["ada", "ben"]});
    let sale = app.sale(json!({ "eligibility": eligibility })).await;
    let token = |user: &str, member: bool, level: i64| {
        let claims = Claims::of(user, &app.variables).with("member", json!(member)).with("level", json!(level));
        claims.sign(&app.variables)
    };
    for (user, member, level) in [("ada", false, 9), ("ada", true, 2), ("eve", true, 9), ("ben", false, 0)] {
        app.ticket(&sale.id, &token(user, member, level)).await.is_problem(403, "not_eligible");
    }
    app.ticket(&sale.id, &app.sign_in("ada")).await.is_problem(403, "not_eligible");
    app.ticket(&sale.id, &token("ada", true, 3)).await.is(201);
    app.ticket(&sale.id, &token("ben", true, 4)).await.is(201);
}

#[tokio::test]
async fn tickets_are_issued_shortly_before_the_start_and_not_earlier() {
    let app = TestApp::shared();
    for (starts_in, status) in [(3_600 * 24, 403), (60, 201)] {
        let id = new_id("soon");
        let starts = json!({"starts_at": in_seconds(starts_in), "ends_at": in_seconds(starts_in + 60)});
        app.admin(Method::PUT, &format!("/activities/{id}"), &description(&starts)).await.is(200);
        app.admin(Method::POST, &format!("/activities/{id}/publish"), &Value::Null).await.is(200);
        let answer = app.ticket(&id, &app.sign_in("ada")).await.is(status);
        assert!(status == 201 || answer.code() == "not_open", "{answer:?}");
    }
}

#[tokio::test]
async fn only_the_admin_token_operates() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let id = &sale.id;
    let routes = [
        (Method::GET, "/api/admin/activities".to_owned()),
        (Method::PUT, format!("/api/admin/activities/{id}")),
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
            let answer = app.http.send(method.clone(), path, token, &json!({"on": true, "by": 1, "seconds": 1})).await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{answer:?}");
        }
    }
    let buyer = app.buyer(&sale, "ada").await;
    app.reserve(&sale, &buyer, "a", 1).await.is(202);
}
