//! Payment callbacks: what is verified counts once, what is not counts never (E2, I6).

use serde_json::{Value, json};
use time::OffsetDateTime;

use support::{Buyer, Sale, TestApp, eventually, payments::sign};

const WEBHOOK: &str = "/api/payments/webhook";

/// An order with a payment session.
async fn waiting(app: &TestApp) -> (Sale, Buyer, String, Value) {
    let sale = app.sale(json!({})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let order_no = app.order(&sale, &buyer).await;
    let session = app.session(&order_no, &buyer.jwt).await;
    let body = TestApp::callback("payment.succeeded", &order_no, &session);
    (sale, buyer, order_no, body)
}

#[tokio::test]
async fn a_callback_that_is_not_signed_well_changes_nothing() {
    let app = TestApp::shared();
    let (_, buyer, order_no, body) = waiting(&app).await;
    let text = body.to_string();
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let secret = app.variables.get("webhook_secrets").to_owned();
    let good = sign(&secret, "evt-1", now, &text);
    let other = sign("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "evt-1", now, &text);
    let old = now - 301;
    let early = now + 3_600;
    for (what, id, timestamp, signature, body) in [
        ("another secret", "evt-1", now, other.clone(), text.clone()),
        ("another id", "evt-2", now, good.clone(), text.clone()),
        ("another time", "evt-1", now - 1, good.clone(), text.clone()),
        ("too old", "evt-1", old, sign(&secret, "evt-1", old, &text), text.clone()),
        ("too early", "evt-1", early, sign(&secret, "evt-1", early, &text), text.clone()),
        ("another body", "evt-1", now, good.clone(), text.replace("1000", "1")),
        ("another version", "evt-1", now, good.replace("v1,", "v2,"), text.clone()),
        ("no signature", "evt-1", now, "v1,".to_owned(), text.clone()),
        ("the start of one", "evt-1", now, good[..11].to_owned(), text.clone()),
        ("three wrong ones", "evt-1", now, format!("{other} v1,AAAA v1a,{}", &good[3..]), text.clone()),
    ] {
        let answer = app.call_back_signed(id, timestamp, &signature, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "signature_invalid"), "{what}: {answer:?}");
    }
    let headers = [("webhook-id", "evt-1".to_owned()), ("webhook-signature", good.clone())];
    let untimed = app.http.raw(reqwest::Method::POST, WEBHOOK, &headers, text.clone()).await.expect("an answer");
    untimed.is_problem(401, "signature_invalid");
    app.wait_for(&order_no, &buyer.jwt, "pending_payment").await;

    // The good one among wrong ones.
    let among = format!("{other} v2,zzz {good} v1,AAAA");
    app.call_back_signed("evt-1", now, &among, &text).await.is(204);
    app.wait_for(&order_no, &buyer.jwt, "paid").await;
}

#[tokio::test]
async fn a_callback_that_comes_again_changes_nothing() {
    let app = TestApp::shared();
    let (sale, buyer, order_no, body) = waiting(&app).await;
    for _ in 0..3 {
        app.call_back("evt-same", &body).await.is(204);
    }
    let paid = app.wait_for(&order_no, &buyer.jwt, "paid").await;
    // A failure that arrives after the payment does not undo it.
    let failed = TestApp::callback("payment.failed", &order_no, "s");
    app.call_back("evt-late-failure", &failed).await.is(204);
    assert_eq!(app.wait_for(&order_no, &buyer.jwt, "paid").await["paid_at"], paid["paid_at"]);
    assert_eq!(app.settled(&sale).await, [9, 0, 1]);
}

#[tokio::test]
async fn too_little_money_or_another_currency_does_not_pay_an_order() {
    let app = TestApp::shared();
    for (member, value) in [("amount", json!(999)), ("amount", json!(0)), ("currency", json!("USD"))] {
        let (sale, buyer, order_no, mut body) = waiting(&app).await;
        body["data"][member] = value.clone();
        let answer = app.call_back(&format!("evt-{order_no}"), &body).await;
        assert!(answer.status < 500, "{member} {value}: {answer:?}");
        let order = app.status(&order_no, &buyer.jwt).await.json();
        assert_ne!(order["status"], "paid", "{member} {value}");
        assert_eq!(app.ledger_count(&sale, "paid").await, 0, "{member} {value}");
    }
}

#[tokio::test]
async fn a_declined_payment_leaves_the_order_waiting() {
    let app = TestApp::shared();
    let (_, buyer, order_no, _) = waiting(&app).await;
    let session = app.session(&order_no, &buyer.jwt).await;
    app.press(&session, "declined").await.is(200);
    app.wait_for(&order_no, &buyer.jwt, "pending_payment").await;
    app.press(&session, "paid").await.is(200);
    app.wait_for(&order_no, &buyer.jwt, "paid").await;
}

#[tokio::test]
async fn a_signed_callback_that_makes_no_sense_is_refused_and_never_an_error_of_ours() {
    let app = TestApp::shared();
    let (_, buyer, order_no, body) = waiting(&app).await;
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let secret = app.variables.get("webhook_secrets").to_owned();
    for (at, text) in ["", "{", "[]", "null", r#"{"type":7}"#, r#"{"type":"payment.succeeded"}"#].iter().enumerate() {
        let id = format!("evt-nonsense-{at}");
        let answer = app.call_back_signed(&id, now, &sign(&secret, &id, now, text), text).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{text}: {answer:?}");
    }
    for (member, wrong) in [("amount", json!("1000")), ("amount", json!(1.5)), ("order_no", json!(7))] {
        let mut wrong_body = body.clone();
        wrong_body["data"][member] = wrong;
        let answer = app.call_back(&format!("evt-wrong-{member}"), &wrong_body).await;
        answer.is_problem(400, "invalid_request").points_at(&format!("/data/{member}"));
    }
    app.call_back("evt-unknown", &json!({"type": "customer.created", "timestamp": "x", "data": {}})).await.is(204);
    app.wait_for(&order_no, &buyer.jwt, "pending_payment").await;
}

#[tokio::test]
async fn money_for_an_order_that_nobody_knows_is_not_lost_and_no_error() {
    let app = TestApp::shared();
    for order_no in ["nowhere.01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "no order number", "a\u{0}b"] {
        let body = TestApp::callback("payment.succeeded", order_no, "s");
        let answer = app.call_back("evt-nowhere", &body).await;
        assert!(answer.status < 500, "{order_no:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_refund_is_asked_for_once_and_only_by_who_paid() {
    let app = TestApp::shared();
    let (sale, buyer, order_no, body) = waiting(&app).await;
    app.refund(&order_no, &buyer.jwt).await.is_problem(409, "state_conflict");
    app.call_back("evt-refund", &body).await.is(204);
    app.refund(&order_no, &app.sign_in("eve")).await.is_problem(404, "not_found");
    app.cancel(&order_no, &buyer.jwt).await.is_problem(409, "state_conflict");
    let asked = app.refund(&order_no, &buyer.jwt).await.is(202);
    assert_eq!(asked.text("status"), "refunding");
    eventually("the money to be back", async || {
        app.sweep().await;
        let order = app.status(&order_no, &buyer.jwt).await.json();
        if order["status"] == "refunded" { Ok(()) } else { Err(order) }
    })
    .await;
    assert_eq!(app.settled(&sale).await, [10, 0, 0]);
}

#[tokio::test]
async fn a_refunded_unit_stays_away_where_the_sale_says_so() {
    let app = TestApp::shared();
    let sale = app.sale(json!({"refund_restocks": false})).await;
    let buyer = app.buyer(&sale, "ada").await;
    let order_no = app.order(&sale, &buyer).await;
    app.pay(&order_no, &buyer.jwt).await;
    app.wait_for(&order_no, &buyer.jwt, "paid").await;
    app.refund(&order_no, &buyer.jwt).await.is(202);
    eventually("the money to be back", async || {
        app.sweep().await;
        let order = app.status(&order_no, &buyer.jwt).await.json();
        if order["status"] == "refunded" { Ok(()) } else { Err(order) }
    })
    .await;
    assert_eq!(app.settled(&sale).await, [9, 0, 1]);
}

#[tokio::test]
async fn a_stripe_callback_without_its_signature_is_refused() {
    let app = TestApp::shared();
    let path = "/api/payments/stripe";
    app.http.post(path, "", &json!({"type": "checkout.session.completed"})).await.is_problem(401, "signature_invalid");
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for header in ["", "t=,v1=", &format!("t={now},v1=00"), "v1=abc", "t=99999999999999999999,v1=00"] {
        let headers = [("stripe-signature", header.to_owned())];
        let answer = app.http.raw(reqwest::Method::POST, path, &headers, "{}").await.expect("an answer");
        answer.is_problem(401, "signature_invalid");
    }
}
