//! The life of an activity: draft, publish, open, order (D1), pause, restock, shed load, close, refund, dead letters.

use reqwest::Method;
use serde_json::{Value, json};
use support::{
    Buyer, TestApp,
    activity::{activity_spec, seconds_from_now, single_sku, unique_id},
    eventually, eventually_is,
};

#[tokio::test]
async fn an_activity_goes_from_draft_to_its_last_refund() {
    let app = TestApp::shared();
    let id = unique_id("whole");
    let activity_path = format!("/api/activities/{id}");
    let admin_path = format!("/activities/{id}");
    let draft_starting_in =
        |seconds| activity_spec(&json!({"starts_at": seconds_from_now(seconds), "per_user": 2, "skus": single_sku(3)}));
    let draft = draft_starting_in(600);
    app.call_admin(Method::PUT, &admin_path, &draft).await.is(200);
    let not_yet = app.http.get(&activity_path, "").await.is_problem(404, "not_found");
    assert_eq!(not_yet.header("cache-control"), "public, max-age=0, s-maxage=1", "a crowd may wait for it");

    app.call_admin(Method::POST, &format!("{admin_path}/publish"), &Value::Null).await.is(200);
    let gate_path = format!("{activity_path}/gate.json");
    let gate = eventually_is("the gate to be there", 200, async || app.http.get(&gate_path, "").await).await;
    assert_eq!(gate.header("cache-control"), "public, max-age=0, s-maxage=1");
    assert_eq!(gate.json()["phase"], "scheduled");
    assert!(gate.json().get("start_key").is_none(), "the start key is visible before the start: {gate:?}");

    let signed_in = app.http.post("/sandbox/sign-in", "", &json!({"user": "ada"})).await.is(200);
    let jwt = signed_in.text("token");
    let ticket = app.request_ticket(&id, &jwt).await.is(201).text("ticket");
    let too_early = json!({"sku": "a", "quantity": 2, "ticket": ticket, "start_key": ""});
    let orders_path = format!("{activity_path}/orders");
    app.http.post(&orders_path, "", &too_early).await.is_problem(403, "not_open");

    app.call_admin(Method::PUT, &admin_path, &draft_starting_in(2)).await.is(200);
    let start_key = eventually("the sale to open", async || {
        let gate = app.http.get(&gate_path, "").await.is(200);
        if gate.json()["phase"] == "open" { Ok(gate.text("start_key")) } else { Err(gate.body) }
    })
    .await;
    assert!(start_key.len() >= 16, "{start_key:?} can be guessed");
    let reservation = json!({"sku": "a", "quantity": 2, "ticket": ticket, "start_key": start_key});
    let accepted = app.http.post(&orders_path, "", &reservation).await.is(202);
    let order_no = accepted.text("order_no");
    assert!(order_no.starts_with(&format!("{id}.")), "{order_no}");
    assert_eq!(accepted.header("location"), format!("/api/orders/{order_no}"));
    assert_eq!(accepted.header("retry-after"), "1");
    let first = accepted.json();
    let expected = (&json!("queued"), &json!(2000), &json!("EUR"));
    assert_eq!((&first["status"], &first["amount"], &first["currency"]), expected);
    for member in ["ahead", "estimated_wait_ms"] {
        assert!(first[member].is_i64(), "no {member}: {first}");
    }
    assert!(first["created_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");

    let pending = app.wait_for_status(&order_no, &ticket, "pending_payment").await;
    assert!(pending["pay_by"].as_str().is_some_and(|time| time.ends_with('Z')), "{pending}");
    let mine = app.http.get("/api/orders", &jwt).await.is(200).json();
    assert!(
        mine["items"].as_array().is_some_and(|orders| orders.iter().any(|order| order["order_no"] == *order_no)),
        "{mine}"
    );

    app.refund(&order_no, &jwt).await.is_problem(409, "state_conflict");
    let paid = app.pay(&order_no, &jwt).await;
    assert!(paid["paid_at"].is_string(), "{paid}");
    app.cancel(&order_no, &jwt).await.is_problem(409, "state_conflict");
    app.refund(&order_no, &app.sign_in("eve")).await.is_problem(404, "not_found");
    assert_eq!(app.refund(&order_no, &jwt).await.is(202).text("status"), "refunding");
    app.sweep_until_refunded(&order_no, &jwt).await;

    app.call_admin(Method::POST, &format!("{admin_path}/close"), &Value::Null).await.is(200);
    eventually("the sale to be over", async || {
        let gate = app.http.get(&gate_path, "").await.json();
        if gate["phase"] == "ended" { Ok(()) } else { Err(gate) }
    })
    .await;
    app.request_ticket(&id, &jwt).await.is_problem(410, "ended");
    let activity = support::TestActivity { id, start_key };
    assert_eq!(app.finish_and_count(&activity).await, [3, 0, 0]);
}

#[tokio::test]
async fn the_list_has_price_picture_and_while_a_sale_is_open_what_is_left() {
    let app = TestApp::shared();
    let sku = |sku: &str, price: i64, image: &str| json!({"sku": sku, "name": sku, "image": image, "price": price, "currency": "EUR", "total": 1});
    let activity = app.create_activity(json!({"skus": [sku("a", 900, ""), sku("b", 500, "/b.png")]})).await;
    let later = json!({"starts_at": seconds_from_now(600), "image": "/own.png", "skus": [sku("a", 0, "/a.png")]});
    let (id, spec) = (unique_id("later"), activity_spec(&later));
    app.call_admin(Method::PUT, &format!("/activities/{id}"), &spec).await.is(200);
    app.call_admin(Method::POST, &format!("/activities/{id}/publish"), &Value::Null).await.is(200);
    let seen = async |wanted: &str, expected: Value| {
        eventually("the sale in the list", async || {
            let list = app.http.get("/api/activities", "").await.is(200).json();
            let found =
                list["items"].as_array().and_then(|list| list.iter().find(|entry| entry["id"] == *wanted).cloned());
            let found = found.unwrap_or_default();
            let is_right = expected.as_object().expect("members").iter().all(|(name, value)| found[name] == *value);
            if is_right { Ok(()) } else { Err(format!("{found} has not {expected}")) }
        })
        .await;
    };
    let open = |left: i64| json!({"image": "/b.png", "price": 500, "currency": "EUR", "sold_out": left == 0, "left": left, "total": 2});
    seen(&activity.id, open(2)).await;
    seen(&id, json!({"image": "/own.png", "price": 0, "sold_out": false, "left": null, "total": null})).await;
    let buyers = app.create_buyers(&activity, 2).await;
    app.reserve(&activity, &buyers[0], "a", 1).await.is(202);
    app.reserve(&activity, &buyers[1], "b", 1).await.is(202);
    seen(&activity.id, open(0)).await;
}

/// The changes of a sale, newest first.
async fn changes_of(app: &TestApp, id: &str) -> Vec<Value> {
    let path = format!("/changes?activity={id}");
    app.call_admin(Method::GET, &path, &Value::Null).await.is(200).json()["items"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn the_changes_of_a_sale_are_those_of_its_skus_and_orders_too() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let other = activity_spec(&json!({"title": "Another"}));
    app.call_admin(Method::PUT, &format!("/activities/{}0", activity.id), &other).await.is(200);
    let buyer = app.create_buyers(&activity, 1).await.remove(0);
    let order_no = app.reserve(&activity, &buyer, "a", 1).await.is(202).text("order_no");
    app.wait_for_status(&order_no, &buyer.ticket, "pending_payment").await;
    let restock = format!("/activities/{}/skus/a/restock", activity.id);
    app.call_admin(Method::POST, &restock, &json!({"by": 1})).await.is(200);
    app.call_admin(Method::POST, &format!("/orders/{order_no}/cancel"), &json!({"reason": "asked"})).await.is(200);
    let subjects: Vec<_> =
        changes_of(&app, &activity.id).await.iter().map(|change| change["subject"].clone()).collect();
    assert_eq!(subjects[..2], [json!(order_no), json!(format!("{}/a", activity.id))]);
    assert!(subjects[2..].iter().all(|subject| *subject == activity.id) && subjects.len() > 2, "{subjects:?}");
    app.call_admin(Method::GET, "/changes?activity=No", &Value::Null).await.is_problem(400, "invalid_request");
}

#[tokio::test]
async fn a_word_from_the_shop_is_in_the_gate_and_among_the_changes() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let path = format!("/activities/{}/announcement", activity.id);
    let seen_in_gate = async |expected: Value| {
        eventually("the announcement in the gate", async || {
            let gate = app.http.get(&format!("/api/activities/{}/gate.json", activity.id), "").await.is(200).json();
            if gate["announcement"] == expected { Ok(()) } else { Err(gate) }
        })
        .await;
    };
    let word = json!({"en": "Twenty more at noon.", "zh": "中午再加二十件。"});
    let changed = app.call_admin(Method::PUT, &path, &word).await.is(200).json();
    assert_eq!(changed["announcement"], word);
    seen_in_gate(word.clone()).await;
    let recorded = changes_of(&app, &activity.id).await.remove(0);
    assert_eq!(recorded["action"], "PUT /api/admin/activities/:activity/announcement");
    assert!(recorded["after"].as_str().is_some_and(|after| after.contains("Twenty more")), "{recorded}");
    // Another change of the sale leaves it.
    app.call_admin(Method::PUT, &format!("/activities/{}", activity.id), &activity_spec(&json!({"title": "B"})))
        .await
        .is(200);
    seen_in_gate(word).await;
    for (body, pointer) in
        [(json!({"en": "x".repeat(281)}), "/en"), (json!({"zh": "a\nb"}), "/zh"), (json!({"en": 7}), "/en")]
    {
        app.call_admin(Method::PUT, &path, &body).await.is_problem(400, "invalid_request").points_at(pointer);
    }
    app.call_admin(Method::PUT, &path, &json!({})).await.is(200);
    seen_in_gate(Value::Null).await;
    app.call_admin(Method::PUT, "/activities/no-such-sale/announcement", &json!({})).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_sale_can_be_put_into_a_calendar() {
    let app = TestApp::shared();
    let activity =
        app.create_activity(json!({"title": "Spring; drop", "titles": {"zh-Hans": "春季", "zh-Hant": "春節"}})).await;
    let path = format!("/api/activities/{}/calendar.ics", activity.id);
    for (query, title) in [
        ("", "SUMMARY:Spring\\; drop\r\n"),
        ("?lang=zh-CN", "SUMMARY:春季\r\n"),
        ("?lang=zh-HK", "SUMMARY:春節\r\n"),
        ("?lang=_", "SUMMARY:Spring"),
    ] {
        let file = app.http.get(&format!("{path}{query}"), "").await.is(200);
        assert_eq!(file.header("content-type"), "text/calendar; charset=utf-8");
        assert!(file.body.starts_with("BEGIN:VCALENDAR\r\n") && file.body.contains(title), "{file:?}");
    }
    app.http.get("/api/activities/no-such-sale/calendar.ics", "").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_paused_activity_accepts_no_orders_and_a_resumed_one_does() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let path = format!("/activities/{}", activity.id);
    app.call_admin(Method::POST, &format!("{path}/pause"), &Value::Null).await.is(200);
    eventually("the pause to be seen", async || {
        // Redis refuses even if an instance's cached gate is still open: no reservation is accepted while paused.
        let refused = app.reserve(&activity, &buyer, "a", 1).await.is_problem(503, "paused");
        let phase = app.http.get(&format!("/api/activities/{}/gate.json", activity.id), "").await.text("phase");
        if phase == "paused" { Ok(refused) } else { Err(phase) }
    })
    .await;
    app.call_admin(Method::POST, &format!("{path}/resume"), &Value::Null).await.is(200);
    eventually_is("the sale to go on", 202, async || app.reserve(&activity, &buyer, "a", 1).await).await;
}

#[tokio::test]
async fn restocking_an_open_activity_sells_the_new_units() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"skus": single_sku(1)})).await;
    let buyers = app.create_buyers(&activity, 3).await;
    app.reserve(&activity, &buyers[0], "a", 1).await.is(202);
    app.reserve(&activity, &buyers[1], "a", 1).await.is_problem(409, "sold_out");
    let restock = format!("/activities/{}/skus/a/restock", activity.id);
    app.call_admin(Method::POST, &restock, &json!({"by": 1})).await.is(200);
    eventually_is("the new unit to be on sale", 202, async || app.reserve(&activity, &buyers[1], "a", 1).await).await;
    app.reserve(&activity, &buyers[2], "a", 1).await.is_problem(409, "sold_out");
    assert_eq!(app.finish_and_count(&activity).await, [0, 2, 0]);
}

#[tokio::test]
async fn while_load_is_shed_orders_are_paid_cancelled_and_polled_but_not_created() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({})).await;
    let buyers = app.create_buyers(&activity, 3).await;
    let (paid_order, cancelled_order) =
        (app.place_order(&activity, &buyers[0]).await, app.place_order(&activity, &buyers[1]).await);
    app.call_admin(Method::PUT, "/shed", &json!({"on": true})).await.is(200);
    let refused = eventually_is("shedding to be seen", 503, async || app.reserve(&activity, &buyers[2], "a", 1).await);
    refused.await.is_problem(503, "overloaded");
    assert_eq!(app.call_admin(Method::GET, "/shed", &Value::Null).await.is(200).json(), json!({"on": true}));
    app.pay(&paid_order, &buyers[0].jwt).await;
    app.cancel(&cancelled_order, &buyers[1].jwt).await.is(200);
    app.call_admin(Method::PUT, "/shed", &json!({"on": false})).await.is(200);
    let jwt = app.sign_in("late");
    let issued =
        eventually_is("tickets to be issued again", 201, async || app.request_ticket(&activity.id, &jwt).await);
    let ticket = issued.await.text("ticket");
    let late = Buyer { user: "late".to_owned(), jwt, ticket };
    eventually_is("orders to be made again", 202, async || app.reserve(&activity, &late, "a", 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_reapplied_once() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({})).await;
    // A message of epoch 0, which never exists: it becomes a dead letter.
    let ulid = "01KZZZZZZZZZZZZZZZZZZZZZZZ";
    let message = format!("1\t{ulid}\teve\ta\t1\t1000\tEUR\t1795234720998\t0\t1\t0\t0");
    let mut redis = app.connect_redis().await;
    let stream = format!("{{{}}}:orders", activity.id);
    redis::cmd("XADD").arg(&[&stream, "*", "o", &message]).query_async::<()>(&mut redis).await.expect("a message");
    let path = format!("/dead-letters/{}.{ulid}/replay", activity.id);
    eventually("the message to become a dead letter and to be requeued", async || {
        app.sweep().await;
        let response = app.call_admin(Method::POST, &path, &Value::Null).await;
        if response.status == 202 { Ok(()) } else { Err(response.body) }
    })
    .await;
    let second_replay = app.call_admin(Method::POST, &path, &Value::Null).await.is_problem(409, "state_conflict");
    assert_eq!(second_replay.text("detail"), "The order is not failed: it was put back before, or never left.");
}
