//! What operators see at a glance: what a sale sold and earned, how its stock went, and what needs a person (G2, G22).

use reqwest::Method;
use serde_json::{Value, json};
use support::{TestApp, eventually};

async fn read(app: &TestApp, path: &str) -> Value {
    app.call_admin(Method::GET, path, &Value::Null).await.is(200).json()
}

/// The figures of a document.
fn figures(document: &Value) -> Value {
    let [total, held, sold, revenue] = ["total", "held_units", "sold_units", "revenue"].map(|name| &document[name]);
    json!([total, held, sold, revenue])
}

#[tokio::test]
async fn a_sale_says_what_it_sold_and_earned_in_its_statistics_and_in_the_list() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let check = async |expected: Value| {
        assert_eq!(figures(&app.stats(&activity.id).await), expected);
        let list = read(&app, "/activities").await;
        let listed = list["items"].as_array().expect("a list").iter().find(|listed| listed["id"] == *activity.id);
        assert_eq!(figures(listed.expect("the sale")), expected);
    };
    check(json!([10, 1, 0, []])).await;
    app.pay(&order_no, &buyer.jwt).await;
    check(json!([10, 0, 1, [{"currency": "EUR", "sold": 1000, "refunded": 0}]])).await;
    app.refund(&order_no, &buyer.jwt).await.is(202);
    app.sweep_until_refunded(&order_no, &buyer.jwt).await;
    check(json!([10, 0, 0, [{"currency": "EUR", "sold": 1000, "refunded": 1000}]])).await;
}

#[tokio::test]
async fn sweeps_keep_how_the_stock_of_a_sale_went() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let path = format!("/activities/{}/history", activity.id);
    let newest = async |held: i64, sold: i64| {
        eventually("a sweep to record it", async || {
            app.sweep().await;
            let page = read(&app, &format!("{path}?limit=1")).await;
            let expected = json!([10 - held - sold, held, sold, "a"]);
            let found = &page["items"][0];
            let units = json!([found["left"], found["held"], found["sold"], found["sku"]]);
            if units == expected { Ok(page) } else { Err(page) }
        })
        .await
    };
    newest(1, 0).await;
    app.pay(&order_no, &buyer.jwt).await;
    let page = newest(0, 1).await;
    let next = page["next"].as_str().expect("a second page").to_owned();
    let older = read(&app, &format!("{path}?before={next}")).await;
    // Another test's sweep may have recorded the sale before its first order.
    let before = older["items"].as_array().and_then(|items| items.last()).expect("an older state");
    assert_eq!(before["held"], 1, "{older}");
    assert!(before["time"].as_str() < page["items"][0]["time"].as_str(), "{older}");
    assert_eq!(older["next"], Value::Null);
    app.call_admin(Method::GET, "/activities/nothing/history", &Value::Null).await.is_problem(404, "not_found");
    let refused = app.call_admin(Method::GET, &format!("{path}?before=x"), &Value::Null).await;
    refused.is_problem(400, "invalid_request").points_at("?before");
}

#[tokio::test]
async fn the_inbox_has_what_needs_a_person_until_it_is_decided() {
    let app = TestApp::dedicated();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    app.open_session(&order_no, &buyer.jwt).await;
    assert_eq!(read(&app, "/inbox").await, json!({"items": [], "next": null}));
    let mut body = TestApp::callback_body("payment.succeeded", &order_no, "s");
    body["data"]["amount"] = json!(1);
    app.send_callback("evt-wrong", &body).await.is(204);
    let mut inbox = read(&app, "/inbox").await;
    let item = inbox["items"][0].take();
    let expected = json!({
        "kind": "parked_callback", "activity": activity.id, "order_no": order_no, "callback": "evt-wrong",
        "reason": "wrong_amount", "count": 1, "since": item["since"], "action": "decide_callback",
    });
    assert_eq!(item, expected);
    assert!(item["since"].is_string());
    app.call_admin(Method::POST, "/callbacks/evt-wrong/dismiss", &Value::Null).await.is(200);
    assert_eq!(read(&app, "/inbox").await["items"], json!([]));

    // A check of readiness that fails is an item, too.
    app.ask_redis::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let inbox = read(&app, "/inbox").await;
    let item = &inbox["items"][0];
    assert_eq!((&item["kind"], &item["action"]), (&json!("not_ready"), &json!("check_readiness")), "{inbox}");
    assert!(item["reason"].as_str().is_some_and(|reason| reason.contains("noeviction")), "{inbox}");
}
