//! A sale from its announcement to its end, as people live it.

use reqwest::Method;
use serde_json::{Value, json};

use support::{
    Buyer, TestApp,
    activity::{description, in_seconds, new_id, units},
    eventually,
};

#[tokio::test]
async fn a_sale_goes_from_draft_to_the_last_refund() {
    let app = TestApp::shared();
    let id = new_id("whole");
    let sale_path = format!("/api/activities/{id}");
    let admin_path = format!("/activities/{id}");
    let starting = |seconds| description(&json!({"starts_at": in_seconds(seconds), "per_user": 2, "skus": units(3)}));
    let draft = starting(600);
    app.admin(Method::PUT, &admin_path, &draft).await.is(200);
    app.http.get(&sale_path, "").await.is_problem(404, "not_found");

    app.admin(Method::POST, &format!("{admin_path}/publish"), &Value::Null).await.is(200);
    let gate_path = format!("{sale_path}/gate.json");
    let gate = eventually("the gate to be there", async || {
        let gate = app.http.get(&gate_path, "").await;
        if gate.status == 200 { Ok(gate) } else { Err(gate.body) }
    })
    .await;
    assert_eq!(gate.header("cache-control"), "public, max-age=0, s-maxage=1");
    assert_eq!(gate.json()["phase"], "scheduled");
    assert!(gate.json().get("start_key").is_none(), "known too early: {gate:?}");

    let signed_in = app.http.post("/sandbox/sign-in", "", &json!({"user": "ada"})).await.is(200);
    let jwt = signed_in.text("token");
    let ticket = app.ticket(&id, &jwt).await.is(201).text("ticket");
    let early = json!({"sku": "a", "quantity": 2, "ticket": ticket, "start_key": ""});
    let orders_path = format!("{sale_path}/orders");
    app.http.post(&orders_path, "", &early).await.is_problem(403, "not_open");

    app.admin(Method::PUT, &admin_path, &starting(2)).await.is(200);
    let start_key = eventually("the sale to open", async || {
        let gate = app.http.get(&gate_path, "").await.is(200);
        if gate.json()["phase"] == "open" { Ok(gate.text("start_key")) } else { Err(gate.body) }
    })
    .await;
    assert!(start_key.len() >= 16, "{start_key:?} can be guessed");
    let wish = json!({"sku": "a", "quantity": 2, "ticket": ticket, "start_key": start_key});
    let accepted = app.http.post(&orders_path, "", &wish).await.is(202);
    let order_no = accepted.text("order_no");
    assert!(order_no.starts_with(&format!("{id}.")), "{order_no}");
    assert_eq!(accepted.header("location"), format!("/api/orders/{order_no}"));
    assert_eq!(accepted.header("retry-after"), "1");
    let first = accepted.json();
    assert_eq!(
        (&first["status"], &first["amount"], &first["currency"]),
        (&json!("queued"), &json!(2000), &json!("EUR"))
    );
    for member in ["ahead", "estimated_wait_ms"] {
        assert!(first[member].is_i64(), "no {member}: {first}");
    }
    assert!(first["created_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");

    let pending = app.wait_for(&order_no, &ticket, "pending_payment").await;
    assert!(pending["pay_by"].as_str().is_some_and(|time| time.ends_with('Z')), "{pending}");
    let mine = app.http.get("/api/orders", &jwt).await.is(200).json();
    assert!(mine.as_array().is_some_and(|orders| orders.iter().any(|order| order["order_no"] == *order_no)), "{mine}");

    app.pay(&order_no, &jwt).await;
    let paid = app.wait_for(&order_no, &jwt, "paid").await;
    assert!(paid["paid_at"].is_string(), "{paid}");
    app.refund(&order_no, &jwt).await.is(202);
    eventually("the money to be back", async || {
        app.sweep().await;
        let order = app.status(&order_no, &jwt).await.json();
        if order["status"] == "refunded" { Ok(()) } else { Err(order) }
    })
    .await;

    app.admin(Method::POST, &format!("{admin_path}/close"), &Value::Null).await.is(200);
    eventually("the sale to be over", async || {
        let gate = app.http.get(&gate_path, "").await.json();
        if gate["phase"] == "ended" { Ok(()) } else { Err(gate) }
    })
    .await;
    app.ticket(&id, &jwt).await.is_problem(410, "ended");
    let sale = support::Sale { id, start_key };
    assert_eq!(app.settled(&sale).await, [3, 0, 0]);
}

#[tokio::test]
async fn the_gate_script_says_what_the_gate_document_says() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let script = app.http.get(&format!("/api/activities/{}/gate.js", sale.id), "").await.is(200);
    assert!(script.header("content-type").starts_with("text/javascript"), "{script:?}");
    assert!(script.body.contains(&sale.start_key), "{script:?}");
}

#[tokio::test]
async fn a_published_sale_is_described_and_listed() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"title": "Lamps", "per_user": 3})).await;
    let shown = app.http.get(&format!("/api/activities/{}", sale.id), "").await.is(200).json();
    assert_eq!((&shown["title"], &shown["per_user"], &shown["phase"]), (&json!("Lamps"), &json!(3), &json!("open")));
    let sku = &shown["skus"][0];
    assert_eq!(
        (&sku["sku"], &sku["price"], &sku["total"], &sku["left"]),
        (&json!("a"), &json!(1000), &json!(10), &json!(10))
    );
    assert!(sku["as_of"].is_string(), "{shown}");
    eventually("the sale to be listed", async || {
        let list = app.http.get("/api/activities", "").await.is(200).json();
        let listed = list.as_array().is_some_and(|sales| sales.iter().any(|listed| listed["id"] == *sale.id));
        if listed { Ok(()) } else { Err(list) }
    })
    .await;
}

#[tokio::test]
async fn a_draft_that_ended_long_ago_is_published_as_ended() {
    let app = TestApp::shared();
    let id = new_id("bygone");
    let days = 24 * 3600;
    let draft = description(&json!({"starts_at": in_seconds(-9 * days), "ends_at": in_seconds(-8 * days)}));
    app.admin(Method::PUT, &format!("/activities/{id}"), &draft).await.is(200);
    app.admin(Method::POST, &format!("/activities/{id}/publish"), &Value::Null).await.is(200);
    let gate = app.http.get(&format!("/api/activities/{id}/gate.json"), "").await.is(200);
    assert_eq!(gate.text("phase"), "ended");
}

#[tokio::test]
async fn a_paused_sale_takes_no_orders_and_a_resumed_one_does() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let path = format!("/activities/{}", sale.id);
    app.admin(Method::POST, &format!("{path}/pause"), &Value::Null).await.is(200);
    eventually("the pause to be seen", async || {
        // Whatever memory still says, Redis refuses: a reservation is never accepted while the sale is paused.
        let refused = app.reserve(&sale, &buyer, "a", 1).await.is_problem(503, "paused");
        let phase = app.http.get(&format!("/api/activities/{}/gate.json", sale.id), "").await.text("phase");
        if phase == "paused" { Ok(refused) } else { Err(phase) }
    })
    .await;
    app.admin(Method::POST, &format!("{path}/resume"), &Value::Null).await.is(200);
    eventually("the sale to go on", async || {
        let answer = app.reserve(&sale, &buyer, "a", 1).await;
        if answer.status == 202 { Ok(()) } else { Err(answer.body) }
    })
    .await;
}

#[tokio::test]
async fn restocking_while_the_sale_runs_sells_more() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"skus": units(1)})).await;
    let buyers = app.buyers(&sale, 3).await;
    app.reserve(&sale, &buyers[0], "a", 1).await.is(202);
    app.reserve(&sale, &buyers[1], "a", 1).await.is_problem(409, "sold_out");
    app.admin(Method::POST, &format!("/activities/{}/skus/a/restock", sale.id), &json!({"by": 1})).await.is(200);
    eventually("the new unit to be on sale", async || {
        let answer = app.reserve(&sale, &buyers[1], "a", 1).await;
        if answer.status == 202 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    app.reserve(&sale, &buyers[2], "a", 1).await.is_problem(409, "sold_out");
    assert_eq!(app.settled(&sale).await, [0, 2, 0]);
}

#[tokio::test]
async fn a_total_never_falls_below_what_is_held() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"skus": units(5)})).await;
    for buyer in app.buyers(&sale, 3).await {
        app.order(&sale, &buyer).await;
    }
    let less = description(&json!({"skus": units(2)}));
    app.admin(Method::PUT, &format!("/activities/{}", sale.id), &less).await.is_problem(409, "state_conflict");
    let fits = description(&json!({"skus": units(3)}));
    app.admin(Method::PUT, &format!("/activities/{}", sale.id), &fits).await.is(200);
    assert_eq!(app.settled(&sale).await, [0, 3, 0]);
}

#[tokio::test]
async fn while_load_is_shed_orders_are_paid_cancelled_and_polled_but_not_made() {
    let app = TestApp::own();
    let sale = app.sale(json!({})).await;
    let buyers = app.buyers(&sale, 3).await;
    let (pays, cancels) = (app.order(&sale, &buyers[0]).await, app.order(&sale, &buyers[1]).await);
    app.admin(Method::PUT, "/shed", &json!({"on": true})).await.is(200);
    eventually("shedding to be seen", async || {
        let answer = app.reserve(&sale, &buyers[2], "a", 1).await;
        if answer.code() == "overloaded" { Ok(answer.is_problem(503, "overloaded")) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(app.admin(Method::GET, "/shed", &Value::Null).await.is(200).json(), json!({"on": true}));
    app.pay(&pays, &buyers[0].jwt).await;
    app.wait_for(&pays, &buyers[0].ticket, "paid").await;
    app.cancel(&cancels, &buyers[1].jwt).await.is(200);
    app.admin(Method::PUT, "/shed", &json!({"on": false})).await.is(200);
    let jwt = app.sign_in("late");
    let ticket = eventually("tickets to be issued again", async || {
        let answer = app.ticket(&sale.id, &jwt).await;
        if answer.status == 201 { Ok(answer.text("ticket")) } else { Err(answer.is_problem(503, "overloaded").body) }
    })
    .await;
    let late = Buyer { user: "late".to_owned(), jwt, ticket };
    eventually("orders to be made again", async || {
        let answer = app.reserve(&sale, &late, "a", 1).await;
        if answer.status == 202 { Ok(()) } else { Err(answer.body) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_put_back_once() {
    let app = TestApp::shared();
    let sale = app.sale(json!({})).await;
    // A message of an epoch that never was.
    let number = "01KZZZZZZZZZZZZZZZZZZZZZZZ";
    let message = format!("{number}\teve\ta\t1\t1000\tEUR\t1795234720998\t0");
    let mut redis = app.redis().await;
    redis::cmd("XADD")
        .arg(&[&format!("{{{}}}:orders", sale.id), "*", "o", &message])
        .query_async::<()>(&mut redis)
        .await
        .expect("a message");
    let path = format!("/dead-letters/{}.{number}/replay", sale.id);
    eventually("the message to die and to be put back", async || {
        app.sweep().await;
        let answer = app.admin(Method::POST, &path, &Value::Null).await;
        if answer.status == 202 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    let again = app.admin(Method::POST, &path, &Value::Null).await.is_problem(409, "state_conflict");
    assert_eq!(again.text("detail"), "The order is not failed: it was put back before, or never left.");
}
