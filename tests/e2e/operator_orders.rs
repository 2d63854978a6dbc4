//! How operators find an order and change it for its buyer (G2, E4).

use reqwest::Method;
use serde_json::{Value, json};
use support::{Response, TestApp, eventually};

async fn get(app: &TestApp, path: &str) -> Response {
    app.call_admin(Method::GET, path, &Value::Null).await
}

/// What happened to an order, in words.
fn happenings(order: &Value) -> Vec<&str> {
    let timeline = order["timeline"].as_array().expect("a timeline");
    let times: Vec<_> = timeline.iter().map(|entry| entry["at"].as_str().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    timeline.iter().map(|entry| entry["what"].as_str().expect("a word")).collect()
}

#[tokio::test]
async fn an_order_is_found_by_its_code_its_buyer_and_its_sale() {
    let app = TestApp::shared();
    let (activity, _, order_no) = app.create_order(json!({})).await;
    let found = async |query: &str| {
        let page = get(&app, &format!("/orders?{query}")).await.is(200).json();
        let items = page["items"].as_array().expect("orders").clone();
        items.into_iter().filter(|order| order["order_no"] == *order_no).collect::<Vec<_>>()
    };
    // As the order's page shows it.
    let end = &order_no[order_no.len() - 8..];
    let code = format!("{}-{}", &end[..4], end[4..].to_lowercase());
    let sale = format!("activity={}", activity.id);
    for query in [
        format!("code={code}"),
        format!("{sale}&code={end}"),
        sale.clone(),
        format!("{sale}&status=pending_payment&limit=1"),
        format!("{sale}&updated_since=2026-01-01T00:00:00%2B01:00"),
        format!("user=ada&{sale}"),
    ] {
        let orders = found(&query).await;
        assert_eq!(orders.len(), 1, "{query}");
        assert_eq!((&orders[0]["user"], &orders[0]["status"]), (&json!("ada"), &json!("pending_payment")));
    }
    for query in [format!("{sale}&status=paid"), "user=nobody".to_owned(), "code=00000000".to_owned()] {
        assert_eq!(found(&query).await, Vec::<Value>::new(), "{query}");
    }
    for (query, pointer) in [
        ("", "?activity"),
        ("status=paid", "?activity"),
        ("updated_since=2026-01-01T00:00:00Z", "?activity"),
        ("activity=A", "?activity"),
        ("user=ada&status=queued", "?status"),
        ("code=1234567", "?code"),
        ("user=ada&updated_since=yesterday", "?updated_since"),
        ("user=ada&before=x", "?before"),
        ("user=ada&limit=201", "?limit"),
    ] {
        get(&app, &format!("/orders?{query}")).await.of(query).is_problem(400, "invalid_request").points_at(pointer);
    }
}

#[tokio::test]
async fn an_operator_gives_more_time_and_cancels_for_a_reason_that_the_timeline_shows() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    let path = format!("/orders/{order_no}");
    let call = async |action: &str, body: Value| app.call_admin(Method::POST, &format!("{path}/{action}"), &body).await;
    let pay_by = get(&app, &path).await.is(200).text("pay_by");
    for (action, body, pointer) in [
        ("extend", json!({}), "/seconds"),
        ("extend", json!({"seconds": 0}), "/seconds"),
        ("extend", json!({"seconds": 86_401}), "/seconds"),
        ("extend", json!({"seconds": 60, "reason": " "}), "/reason"),
        ("cancel", json!({}), "/reason"),
        ("cancel", json!({"reason": "\u{0}"}), "/reason"),
        ("cancel", json!({"reason": "x".repeat(501)}), "/reason"),
    ] {
        call(action, body).await.of(action).is_problem(400, "invalid_request").points_at(pointer);
    }
    let extended = call("extend", json!({"seconds": 3_600, "reason": "uses a screen reader"})).await.is(200);
    assert!(extended.text("pay_by") > pay_by, "{extended:?}");
    let shown = app.get_order(&order_no, &buyer.jwt).await.is(200);
    assert_eq!(shown.text("pay_by"), extended.text("pay_by"));

    let cancelled = call("cancel", json!({"reason": "wrote to us"})).await.is(200);
    assert_eq!(cancelled.text("reason"), "cancelled_by_operator");
    call("cancel", json!({"reason": "once more"})).await.is(200);
    call("extend", json!({"seconds": 60})).await.is_problem(409, "state_conflict");
    app.wait_for_status(&order_no, &buyer.jwt, "cancelled").await;
    let order = get(&app, &path).await.is(200).json();
    assert_eq!(happenings(&order), ["created", "pending_payment", "operator", "cancelled", "operator"], "{order}");
    let by_operator = |index: usize| {
        let entry = &order["timeline"][index];
        (entry["by"].clone(), entry["reason"].clone(), entry["action"].clone())
    };
    let action = |name: &str| json!(format!("POST /api/admin/orders/:order_no/{name}"));
    assert_eq!(by_operator(2), (json!("admin"), json!("uses a screen reader"), action("extend")));
    assert_eq!(by_operator(4), (json!("admin"), json!("wrote to us"), action("cancel")));
    assert_eq!((&order["refunded_amount"], &order["refundable_amount"]), (&json!(0), &json!(0)));
    assert_eq!(app.finish_and_count(&activity).await, [10, 0, 0]);
    let strikes = get(&app, &format!("/strikes/{}", buyer.user)).await.is(200).json();
    assert_eq!(strikes["user"], "ada");

    for action in ["cancel", "extend"] {
        let path = format!("/orders/{}.01ARZ3NDEKTSV4RRFFQ69G5FAV/{action}", activity.id);
        let body = if action == "extend" { json!({"seconds": 1}) } else { json!({"reason": "x"}) };
        app.call_admin(Method::POST, &path, &body).await.is_problem(404, "not_found");
    }
}

#[tokio::test]
async fn the_timeline_of_a_refunded_order_has_its_payment_and_refund() {
    let app = TestApp::shared();
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    app.pay(&order_no, &buyer.jwt).await;
    let path = format!("/orders/{order_no}");
    let order = get(&app, &path).await.is(200).json();
    assert_eq!((&order["refunded_amount"], &order["refundable_amount"]), (&json!(0), &json!(1000)));
    assert_eq!(happenings(&order), ["created", "pending_payment", "session_opened", "callback", "paid"], "{order}");
    assert_eq!(
        (&order["timeline"][3]["type"], &order["timeline"][3]["outcome"]),
        (&json!("payment.succeeded"), &json!("paid"))
    );
    app.http.post(&format!("/api/orders/{order_no}/refund"), &buyer.jwt, &Value::Null).await.is(202);
    eventually("the refund", async || {
        app.sweep().await;
        let order = get(&app, &path).await.is(200).json();
        if order["status"] == "refunded" { Ok(()) } else { Err(order) }
    })
    .await;
    let order = get(&app, &path).await.is(200).json();
    assert_eq!(happenings(&order)[5..], ["refund_requested", "callback", "refunded"], "{order}");
    assert_eq!((&order["refunded_amount"], &order["refundable_amount"]), (&json!(1000), &json!(0)));
}

#[tokio::test]
async fn an_operator_gives_a_part_back_and_later_the_rest() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({})).await;
    app.pay(&order_no, &buyer.jwt).await;
    let path = format!("/orders/{order_no}");
    let refund = async |key: &str, body: Value| {
        let token = format!("Bearer {}", app.variables.get("admin_token"));
        let headers = [("authorization", token), ("idempotency-key", key.to_owned())];
        let path = format!("/api/admin{path}/refund");
        app.http.send_with_headers(Method::POST, &path, &headers, body.to_string()).await.expect("an answer")
    };
    let part = |amount: i64| json!({"amount": amount, "reason": "the box was damaged"});
    let without_key = app.call_admin(Method::POST, &format!("{path}/refund"), &part(300)).await;
    without_key.is_problem(400, "invalid_request");
    refund("a", part(0)).await.is_problem(400, "invalid_request").points_at("/amount");
    refund("a", part(1_001)).await.is_problem(409, "state_conflict");
    for _ in 0..2 {
        assert_eq!(refund("a", part(300)).await.is(202).json()["refunded_amount"], 300);
    }
    refund("a", part(200)).await.is_problem(409, "state_conflict");
    let shown = app.get_order(&order_no, &buyer.jwt).await.is(200).json();
    assert_eq!((&shown["status"], &shown["refunded_amount"]), (&json!("paid"), &json!(300)));
    eventually("the part", async || {
        app.sweep().await;
        let order = get(&app, &path).await.is(200).json();
        if order["refunds"][0]["state"] == "confirmed" { Ok(()) } else { Err(order) }
    })
    .await;
    let order = get(&app, &path).await.is(200).json();
    assert_eq!((&order["refunded_amount"], &order["refundable_amount"]), (&json!(300), &json!(700)));
    let by_operator = order["timeline"].as_array().expect("a timeline").iter().filter(|it| it["what"] == "operator");
    assert_eq!(by_operator.map(|it| it["amount"].clone()).collect::<Vec<_>>(), [300]);

    let rest = app.call_admin(Method::POST, &format!("{path}/refund"), &json!({"reason": "sent back"})).await;
    assert_eq!(rest.is(202).text("reason"), "refunded_by_operator");
    eventually("the refund", async || {
        app.sweep().await;
        let order = get(&app, &path).await.is(200).json();
        if order["status"] == "refunded" { Ok(()) } else { Err(order) }
    })
    .await;
    assert_eq!(get(&app, &path).await.is(200).json()["refunded_amount"], 1_000);
    assert_eq!(app.finish_and_count(&activity).await, [10, 0, 0]);
}
