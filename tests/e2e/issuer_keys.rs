//! Sign-in tokens that are verified with the keys that the identity provider publishes (B1).

use jsonwebtoken::Algorithm;
use serde_json::json;

use support::{Buyer, Claims, Issuer, TestApp, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_the_issuer_buys_and_the_keys_are_fetched_once() {
    let issuer = Issuer::start("a").await;
    let app = TestApp::with_variables(|variables| issuer.set_variables(variables));
    let activity = app.create_activity(json!({})).await;
    let token = issuer.sign_in("ada", "a");
    let ticket = app.request_ticket(&activity.id, &token).await.is(201).text("ticket");
    let buyer = Buyer { user: "ada".to_owned(), jwt: token.clone(), ticket };
    let order_no = app.place_order(&activity, &buyer).await;
    app.wait_for_status(&order_no, &token, "pending_payment").await;
    app.cancel(&order_no, &token).await.is(200);
    assert_eq!(issuer.requests(), 1, "three functions share the keys");

    let claims = Claims::for_user("ada", &app.variables);
    let (head, signature) = token.rsplit_once('.').expect("a token");
    for (case, token) in [
        ("a changed signature", format!("{head}.{}{signature}", "A")),
        ("a shared secret", claims.sign_with(Algorithm::HS256, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")),
    ] {
        let response = app.request_ticket(&activity.id, &token).await;
        assert_eq!((response.status, response.code().as_str()), (401, "unauthenticated"), "{case}: {response:?}");
    }
    assert_eq!(issuer.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_accepted_within_ten_seconds_and_never_refused() {
    let issuer = Issuer::start("a").await;
    let app = TestApp::with_variables(|variables| issuer.set_variables(variables));
    app.http.get("/api/orders", &issuer.sign_in("ada", "a")).await.is(200);
    issuer.publish("b");
    let token = issuer.sign_in("ada", "b");
    eventually("the new key being accepted", async || {
        let response = app.http.get("/api/orders", &token).await;
        assert!(response.status == 200 || response.code() == "not_ready", "{response:?}");
        if response.status == 200 { Ok(()) } else { Err(format!("{response:?}")) }
    })
    .await;
    assert_eq!(issuer.requests(), 2);
    app.http.get("/api/orders", &issuer.sign_in("ada", "a")).await.is_problem(503, "not_ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn known_keys_are_used_and_no_token_is_refused_while_the_issuer_is_away() {
    let issuer = Issuer::start("a").await;
    issuer.go_away();
    let app = TestApp::with_variables(|variables| issuer.set_variables(variables));
    let token = issuer.sign_in("ada", "a");
    let response = app.http.get("/api/orders", &token).await.is_problem(503, "not_ready");
    assert!(!response.header("retry-after").is_empty(), "{response:?}");
    issuer.publish("a");
    eventually("the keys", async || {
        let response = app.http.get("/api/orders", &token).await;
        if response.status == 200 { Ok(()) } else { Err(format!("{response:?}")) }
    })
    .await;
    issuer.go_away();
    // What its instances knew is forgotten; the copy in key-value remains.
    app.restart();
    app.http.get("/api/orders", &token).await.is(200);
}
