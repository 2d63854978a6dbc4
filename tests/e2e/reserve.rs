//! Reservations: the last unit, replays, limits (B3, B4, C1, C6; I1).

use futures::{StreamExt, future::join_all, stream};
use serde_json::json;
use support::{TestApp, activity::single_sku, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn the_last_unit_is_sold_once_to_a_thousand_buyers() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"skus": single_sku(1)})).await;
    let buyers = app.create_buyers(&activity, 1_000).await;
    let responses = join_all(buyers.iter().map(|buyer| app.reserve(&activity, buyer, "a", 1))).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == 202);
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    for response in refused {
        response.is_problem(409, "sold_out");
    }
    assert_eq!(app.finish_and_count(&activity).await, [0, 1, 0]);
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, 1);
}

#[tokio::test]
async fn a_refused_reservation_does_not_use_up_the_ticket() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"skus": single_sku(1)})).await;
    let (first, second) = (app.create_buyer(&activity, "ada").await, app.create_buyer(&activity, "ben").await);
    let order_no = app.place_order(&activity, &first).await;
    app.reserve(&activity, &second, "a", 1).await.is_problem(409, "sold_out");
    app.cancel(&order_no, &first.jwt).await.is(200);
    // Redis hears of it after the answer.
    app.wait_for_status(&order_no, &first.jwt, "cancelled").await;
    let start = std::time::Instant::now();
    eventually("the sale to re-open", async || {
        let sent_after = start.elapsed();
        let response = app.reserve(&activity, &second, "a", 1).await;
        if response.status == 202 {
            return Ok(());
        }
        // C6: within a second of the release, counted from when the request was sent, not from its response.
        assert!(sent_after.as_millis() < 1_100, "still sold out for a request sent after {sent_after:?}");
        Err(response.is_problem(409, "sold_out").body)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sold_out_names_the_order_of_its_ticket() {
    let app = TestApp::shared();
    let sku = |name: &str| json!({"sku": name, "name": name, "price": 1, "currency": "EUR", "total": 200});
    let activity = app.create_activity(json!({"skus": [sku("a"), sku("b")]})).await;
    let buyers = app.create_buyers(&activity, 500).await;
    let sku_of = |index: usize| if index < 200 { "a" } else { "b" };
    let reserve_all = async |other: bool| {
        let sku = |index| if other { ["a", "b"][usize::from(sku_of(index) == "a")] } else { sku_of(index) };
        let requests = (0..500).map(|index| app.reserve(&activity, &buyers[index], sku(index), 1));
        stream::iter(requests).buffered(32).collect::<Vec<_>>().await
    };
    let first = reserve_all(false).await;
    assert_eq!(first.iter().filter(|response| response.status == 202).count(), 400);
    let (again, conflicts) = (reserve_all(false).await, reserve_all(true).await);
    for (index, buyer) in buyers.iter().enumerate() {
        let order_no = buyer.order_no();
        for response in [&first[index], &again[index], &conflicts[index]] {
            match response.code().as_str() {
                "sold_out" => {
                    let problem = response.clone().is_problem(409, "sold_out").json();
                    assert_eq!(problem["order_no"], order_no, "buyer {index}");
                    let detail = problem["detail"].as_str().unwrap_or_default();
                    assert!(detail.contains("if an earlier request had no answer, read this order"), "{detail}");
                }
                // Redis decided, not an instance's memory.
                "ticket_conflict" => assert_eq!(first[index].status, 202, "buyer {index}"),
                _ => assert_eq!(response.clone().is(202).body, first[index].body, "buyer {index}"),
            }
        }
        let status = if first[index].status == 202 { 200 } else { 404 };
        app.get_order(&order_no, &buyer.ticket).await.is(status);
    }
    assert_eq!(app.finish_and_count(&activity).await, [0, 200, 0]);
}

#[tokio::test]
async fn a_buyer_of_two_is_told_that_one_is_left_and_gets_it() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"per_user": 3, "skus": single_sku(1)})).await;
    let (ada, ben) = (app.create_buyer(&activity, "ada").await, app.create_buyer(&activity, "ben").await);
    // Each reads what another request made the instance remember.
    for buyer in [&ada, &ben, &ada] {
        let problem = app.reserve(&activity, buyer, "a", 2).await.is_problem(409, "insufficient_stock").json();
        assert_eq!((&problem["left"], &problem["order_no"]), (&json!(1), &json!(buyer.order_no())), "{problem}");
    }
    app.reserve(&activity, &ada, "a", 1).await.is(202);
    app.reserve(&activity, &ben, "a", 2).await.is_problem(409, "sold_out");
}

#[tokio::test]
async fn a_changed_price_is_told_before_an_order_is_made() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"per_user": 2})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let reserve = async |amount: serde_json::Value| {
        let mut body = TestApp::reservation_body(&activity, &buyer, "a", 2);
        body["amount"] = amount;
        app.http.post(&format!("/api/activities/{}/orders", activity.id), "", &body).await
    };
    let wrong = reserve(json!("2000")).await.is_problem(400, "invalid_request").json();
    assert_eq!(wrong["errors"][0]["pointer"], "/amount", "{wrong}");
    let problem = reserve(json!(1_000)).await.is_problem(409, "price_changed").json();
    assert_eq!((&problem["amount"], &problem["currency"]), (&json!(2_000), &json!("EUR")), "{problem}");
    assert_eq!(reserve(problem["amount"].clone()).await.is(202).json()["amount"], 2_000);
}

#[tokio::test]
async fn reservations_of_one_user_are_rate_limited_with_a_reset_time() {
    let app = TestApp::shared();
    let activity =
        app.create_activity(json!({"limits": {"user": {"count": 3, "seconds": 60}, "ip": null, "all": null}})).await;
    let buyers = join_all((0..3).map(|_| app.create_buyer(&activity, "eager"))).await;
    let first = app.reserve(&activity, &buyers[0], "a", 1).await.is(202);
    assert_eq!(first.header("ratelimit-policy"), r#""user";q=3;w=60"#);
    assert!(first.header("ratelimit").starts_with(r#""user";r=2;t="#), "{first:?}");
    for buyer in &buyers[1..] {
        app.reserve(&activity, buyer, "a", 1).await.is_problem(409, "limit_reached");
    }
    let limited = app.reserve(&activity, &buyers[2], "a", 1).await.is_problem(429, "rate_limited");
    assert_eq!(limited.json()["violated-policies"], json!(["user"]), "{limited:?}");
    let reset = limited.header("ratelimit").rsplit("t=").next().and_then(|t| t.parse::<u32>().ok()).expect("t");
    assert!(limited.header("retry-after").parse::<u32>().expect("seconds") >= reset, "{limited:?}");
    // Another user is not limited.
    let other = app.create_buyer(&activity, "calm").await;
    app.reserve(&activity, &other, "a", 1).await.is(202);
}
