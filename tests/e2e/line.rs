//! The line through the API (H1): who comes too late waits, is offered what comes back, and leaves when they like.

use reqwest::Method;
use serde_json::{Value, json};
use support::{Buyer, TestActivity, TestApp, activity::single_sku, eventually, payments::use_events_endpoint};

/// A sale whose only unit is taken by the first of these buyers, with a line for the others.
async fn sold_out(app: &TestApp, buyers: usize) -> (TestActivity, Vec<Buyer>) {
    let line = json!({"mode": "waitlist", "max_units": 3, "offer_seconds": 120});
    let activity = app.create_activity(json!({"skus": single_sku(1), "line": line})).await;
    let buyers = app.create_buyers(&activity, buyers).await;
    let order_no = app.place_order(&activity, &buyers[0]).await;
    app.wait_for_status(&order_no, &buyers[0].ticket, "pending_payment").await;
    (activity, buyers)
}

/// Joins the line. Returns the entry.
async fn join(app: &TestApp, activity: &TestActivity, buyer: &Buyer) -> Value {
    app.reserve(activity, buyer, "a", 1).await.is(202).json()
}

async fn seen(app: &TestApp, activity: &TestActivity, is_right: impl Fn(&Value, &Value) -> bool) {
    eventually("what visitors see", async || {
        let gate = app.http.get(&format!("/api/activities/{}/gate.json", activity.id), "").await.json();
        let document = app.http.get(&format!("/api/activities/{}", activity.id), "").await.json();
        if is_right(&gate, &document) { Ok(()) } else { Err(format!("{gate} {document}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_comes_back_is_offered_to_the_first_in_line() {
    let mut events = None;
    let app = TestApp::with_variables(|variables| events = Some(use_events_endpoint(variables)));
    let events = events.expect("an endpoint");
    let (activity, buyers) = sold_out(&app, 5).await;
    seen(&app, &activity, |gate, sale| gate["sold_out"] == json!([]) && sale["skus"][0]["waiting"] == 0).await;
    for (ahead, buyer) in buyers[1..4].iter().enumerate() {
        let entry = join(&app, &activity, buyer).await;
        assert_eq!((&entry["status"], &entry["ahead"]), (&json!("waiting"), &json!(ahead)), "{entry}");
    }
    seen(&app, &activity, |gate, sale| {
        gate["sold_out"] == json!(["a"]) && sale["skus"][0]["left"] == 0 && sale["skus"][0]["waiting"] == 3
    })
    .await;
    app.reserve(&activity, &buyers[4], "a", 1).await.is_problem(409, "sold_out");
    let waiting = app.get_order(&buyers[2].order_no(), &buyers[2].ticket).await.is(200);
    assert_eq!((waiting.text("status"), waiting.header("retry-after")), ("waiting".to_owned(), "5"));
    let listed = app.http.get("/api/orders", &buyers[2].jwt).await.is(200).json();
    assert_eq!(listed["items"][0]["status"], "waiting", "{listed}");

    // The second leaves, and an operator removes the third: the next unit goes to the first alone.
    let left = app.cancel(&buyers[2].order_no(), &buyers[2].jwt).await.is(200).json();
    assert_eq!((&left["status"], &left["reason"]), (&json!("cancelled"), &json!("left_line")), "{left}");
    let third = buyers[3].order_no();
    eventually("the third in the ledger", async || {
        let removed =
            app.call_admin(Method::POST, &format!("/orders/{third}/cancel"), &json!({"reason": "a robot"})).await;
        if removed.status == 200 { Ok(()) } else { Err(removed.body) }
    })
    .await;
    let removed = app.wait_for_status(&third, &buyers[3].ticket, "cancelled").await;
    assert_eq!(removed["reason"], "removed_by_operator", "{removed}");
    let off = json!({"skus": single_sku(1)});
    let path = format!("/activities/{}", activity.id);
    app.call_admin(Method::PUT, &path, &support::activity::activity_spec(&off)).await.is_problem(409, "state_conflict");

    app.cancel(&buyers[0].order_no(), &buyers[0].jwt).await.is(200);
    let offered = app.wait_for_status(&buyers[1].order_no(), &buyers[1].ticket, "pending_payment").await;
    assert_eq!(offered["reason"], Value::Null, "{offered}");
    app.pay(&buyers[1].order_no(), &buyers[1].jwt).await;
    app.wait_for_status(&buyers[1].order_no(), &buyers[1].ticket, "paid").await;
    eventually("the event of the offer", async || {
        app.sweep().await;
        let found = events
            .try_iter()
            .find(|event| event["type"] == "order.pending_payment" && event["data"]["offered"] == true);
        found.map(|event| assert_eq!(event["data"]["order_no"], buyers[1].order_no())).ok_or("none")
    })
    .await;
    let audit = app.audit(&activity.id).await;
    assert_eq!((&audit["ok"], &audit["skus"][0]["redis"]["waiting"]), (&json!(true), &json!(0)), "{audit}");
    let person = app.call_admin(Method::GET, &format!("/users/{}", buyers[2].user), &Value::Null).await.is(200).json();
    assert_eq!(person["line"][0]["reason"], "left_line", "{person}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_sale_ends_its_line() {
    let app = TestApp::shared();
    let (activity, buyers) = sold_out(&app, 2).await;
    join(&app, &activity, &buyers[1]).await;
    app.call_admin(Method::POST, &format!("/activities/{}/close", activity.id), &Value::Null).await.is(200);
    let ended = app.wait_for_status(&buyers[1].order_no(), &buyers[1].ticket, "expired").await;
    assert_eq!(ended["reason"], "sale_ended", "{ended}");
}
