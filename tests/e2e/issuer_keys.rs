//! Sign-in tokens that are verified with the keys that the issuer publishes (B1).

use futures::future::join_all;
use jsonwebtoken::Algorithm;
use serde_json::json;
use support::{Buyer, Claims, Issuer, TestApp, eventually, eventually_is};

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
    // The issuer may have another key under this name since.
    let changed = format!("{head}.{}{signature}", "A");
    app.request_ticket(&activity.id, &changed).await.is_problem(503, "not_ready");
    let confused = claims.sign_with(Algorithm::HS256, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    app.request_ticket(&activity.id, &confused).await.is_problem(401, "unauthenticated");
    assert_eq!(issuer.requests(), 1);
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
    eventually_is("the keys", 200, async || app.http.get("/api/orders", &token).await).await;
    issuer.go_away();
    // What its instances knew is forgotten; the copy in key-value remains.
    app.restart();
    app.http.get("/api/orders", &token).await.is(200);
}

/// Several tokens of invented keys reach an instance while one of them waits for the issuer.
#[tokio::test(flavor = "multi_thread")]
async fn buyers_of_known_keys_do_not_wait_beside_invented_ones_for_a_silent_issuer() {
    let issuer = Issuer::start("a").await;
    let app = TestApp::with_variables(|variables| issuer.set_variables(variables));
    let list = async |token: &str| app.http.get("/api/orders", token).await;
    let known = issuer.sign_in("ada", "a");
    list(&known).await.is(200);
    issuer.fall_silent();
    let invented: Vec<String> = (0..8).map(|n| issuer.sign_in("mallory", &format!("invented-{n}"))).collect();
    let send_invented = async || join_all(invented.iter().map(|token| list(token))).await;
    let buyers = async || {
        eventually("a request that waits for the issuer", async || match issuer.waiting() {
            1 => Ok(()),
            waiting => Err(waiting),
        })
        .await;
        for response in join_all((0..24).map(|_| list(&known))).await {
            response.is(200);
        }
        issuer.waiting()
    };
    // Ten seconds after the keys were fetched, a token of an unknown key makes a request.
    let attackers = async {
        while issuer.requests() < 2 {
            for response in send_invented().await {
                response.is_problem(503, "not_ready");
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let ((), waiting) = futures::join!(attackers, buyers());
    assert_eq!(waiting, 1, "the buyers were served before the request to the issuer ended");
    assert_eq!(issuer.requests(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_invented_keys_make_their_address_suspicious_and_refuse_no_buyer_there() {
    let issuer = Issuer::start("a").await;
    let app = TestApp::with_variables(|variables| {
        issuer.set_variables(variables);
        variables.set("trusted_hops", "1");
    });
    let activity = app.create_activity(json!({"human_check": "suspicious"})).await;
    let request = async |user: &str, kid: &str, address: &str| {
        app.request_ticket_through(&activity, &issuer.sign_in(user, kid), address).await
    };
    request("ada", "a", "203.0.113.7").await.is(201);
    // A valid request reports what its instance has counted.
    for round in 0..12 {
        for n in 0..60 {
            let refused = request(&format!("mallory-{n}"), &format!("invented-{round}-{n}"), "203.0.113.7").await;
            refused.is_problem(503, "not_ready");
        }
        request(&format!("reporter-{round}"), "a", "198.51.100.1").await.is(201);
    }
    request("ben", "a", "203.0.113.7").await.is_problem(403, "human_check_required");
    request("ben", "a", "203.0.113.8").await.is(201);
}
