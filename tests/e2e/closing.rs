//! A sale is closed: its books are exported and agree with what the provider reports, or each difference is found (G21).

use std::{collections::BTreeSet, fs};

use dev::{
    closing::{self, Options, books::Entry, provider_report::Report, reconcile::reconcile},
    variables::Variables,
};
use reqwest::Method;
use serde_json::{Value, json};
use support::{TestActivity, TestApp, eventually, payments::send_stripe_event};

use crate::payments::use_stripe;

/// The columns of Stripe's report that count.
const COLUMNS: &str =
    "balance_transaction_id,currency,gross,reporting_category,payment_intent_id,payment_metadata[order_no]";

/// A part that an operator gives back is confirmed by a callback; Stripe itself cannot be reached.
fn use_unreachable_stripe(variables: &mut Variables) {
    use_stripe(variables);
    variables.set("stripe_api", "http://127.0.0.1:1");
}

/// Sends an event about an object of an order.
async fn report(app: &TestApp, id: &str, kind: &str, order_no: &str, object: Value) {
    let mut event = json!({"id": id, "type": kind, "created": 1_900_000_000, "data": {"object": object}});
    event["data"]["object"]["metadata"] = json!({ "order_no": order_no });
    send_stripe_event(&app.http, &app.variables, &event).await.of(id).is(204);
}

async fn pay(app: &TestApp, order_no: &str, payment: &str) {
    let session = json!({"id": format!("cs_{payment}"), "payment_intent": payment, "payment_status": "paid",
        "amount_total": 1000, "currency": "eur", "status": "complete"});
    report(app, &format!("evt_{payment}"), "checkout.session.completed", order_no, session).await;
}

async fn refund(app: &TestApp, order_no: &str, payment: &str) {
    let charge = json!({"payment_intent": payment, "amount": 1000, "amount_refunded": 1000, "currency": "eur"});
    report(app, &format!("evt_re_{payment}"), "charge.refunded", order_no, charge).await;
}

async fn dispute(app: &TestApp, payment: &str, status: &str) {
    let dispute = json!({"id": format!("du_{payment}"), "created": 1_900_000_000, "payment_intent": payment,
        "amount": 1000, "currency": "eur", "reason": "fraudulent", "status": status});
    report(app, &format!("evt_du_{payment}_{status}"), "charge.dispute.updated", "", dispute).await;
}

/// A sale with five orders: one paid, one refunded in Stripe's dashboard, one paid twice, one disputed, one cancelled.
async fn sell(app: &TestApp) -> (TestActivity, Vec<String>) {
    let activity = app.create_activity(json!({})).await;
    let buyers = app.create_buyers(&activity, 5).await;
    let mut orders = Vec::new();
    for (n, buyer) in buyers.iter().enumerate() {
        let order_no = app.place_order(&activity, buyer).await;
        match n {
            4 => drop(app.cancel(&order_no, &buyer.jwt).await.is(200)),
            _ => {
                pay(app, &order_no, &format!("pi_{n}")).await;
                app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
            }
        }
        orders.push(order_no);
    }
    refund(app, &orders[1], "pi_1").await;
    app.wait_for_status(&orders[1], &buyers[1].jwt, "refunded").await;
    pay(app, &orders[2], "pi_twice").await;
    dispute(app, "pi_3", "needs_response").await;
    (activity, orders)
}

/// What Stripe's report has of [`sell`].
fn rows(orders: &[String]) -> Vec<String> {
    let row = |n: usize, gross: &str, category: &str, payment: &str, order: usize| {
        format!("txn_{n},eur,{gross},{category},{payment},{}", orders[order])
    };
    vec![
        row(0, "10.00", "charge", "pi_0", 0),
        row(1, "10.00", "charge", "pi_1", 1),
        row(2, "-10.00", "refund", "pi_1", 1),
        row(3, "10.00", "charge", "pi_2", 2),
        row(4, "10.00", "charge", "pi_twice", 2),
        row(5, "-10.00", "refund", "pi_twice", 2),
        row(6, "10.00", "charge", "pi_3", 3),
        row(7, "-10.00", "dispute", "pi_3", 3),
        // Of another sale, and none of a payment.
        "txn_8,eur,5.00,charge,pi_other,other.01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
        "txn_9,eur,-0.50,fee,,".to_owned(),
    ]
}

fn to_report(rows: &[String]) -> String {
    format!("{COLUMNS}\n{}\n", rows.join("\n"))
}

/// All pages of a sale's books.
async fn read_books(app: &TestApp, query: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut next = Some(format!("/orders?{query}"));
    while let Some(path) = next {
        let page = app.call_admin(Method::GET, &path, &Value::Null).await.is(200);
        lines.extend(page.body.lines().map(str::to_owned));
        next = page.headers.get("link").map(|link| {
            let link = link.to_str().expect("text").trim_start_matches("</api/admin");
            link.strip_suffix(">; rel=\"next\"").expect("a next page").to_owned()
        });
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_closed_without_a_difference_and_each_planted_one_is_found() {
    let app = TestApp::with_variables(use_unreachable_stripe);
    let (activity, orders) = sell(&app).await;
    let directory = tempfile::tempdir().expect("a directory");
    let [report, books] = ["report.csv", "books.csv"].map(|name| directory.path().join(name));
    let options = Options {
        sale: Some(activity.id.clone()),
        url: format!("http://127.0.0.1:{}", app.port()),
        admin_token: Some(app.variables.get("admin_token").to_owned()),
        provider_report: vec![report.clone()],
        books: Some(books.clone()),
        updated_since: None,
    };
    let close = async || {
        let options = options.clone();
        tokio::task::spawn_blocking(move || closing::list(&options)).await.expect("a thread").expect("a list")
    };
    let open = async || {
        let items = close().await.into_iter().filter(|item| item.is_open());
        items.map(|item| item.what).collect::<Vec<_>>()
    };
    fs::write(&report, to_report(&rows(&orders))).expect("a report");
    let agree = "the books agree with the provider";
    assert_eq!(open().await, ["the sale has ended", "no refund is open", agree], "the second payment is not back yet");
    refund(&app, &orders[2], "pi_twice").await;
    app.call_admin(Method::POST, &format!("/activities/{}/close", activity.id), &Value::Null).await.is(200);
    eventually("the sale to be closed", async || {
        app.sweep().await;
        let items = close().await.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        if open().await.is_empty() { Ok(items) } else { Err(items) }
    })
    .await;
    let items = close().await.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(items.contains("note  open disputes: 1") && items.contains("5 payments"), "{items}");

    let books = Entry::parse_all(&fs::read_to_string(books).expect("the books")).expect("entries");
    let sales = BTreeSet::from([activity.id.clone()]);
    let differences = |report: &[String]| {
        let report = Report::parse(&to_report(report)).expect("a report");
        reconcile(&sales, &books, &[report]).differences
    };
    let right = rows(&orders);
    assert_eq!(differences(&right), [""; 0]);
    let without = |n: usize| right.iter().enumerate().filter(|(at, _)| *at != n).map(|(_, row)| row.clone()).collect();
    let with = |row: String| [right.clone(), vec![row]].concat();
    let replaced = |from: &str, to: &str| right.iter().map(|row| row.replace(from, to)).collect::<Vec<_>>();
    let of = |payment: &str, order: usize, what: &str| format!("payment {payment} of order {}: {what}", orders[order]);
    let lost = format!("{}.01ARZ3NDEKTSV4RRFFQ69G5FAV", activity.id);
    for (case, report, expected) in [
        (
            "a payment without an order",
            with(format!("txn,eur,10.00,charge,pi_lost,{lost}")),
            format!("payment pi_lost of order {lost}: 1000 EUR is not in the books"),
        ),
        ("a payment that the provider does not have", without(0), of("pi_0", 0, "1000 EUR is not in the report")),
        (
            "a refund twice",
            with(right[2].clone()),
            of("pi_1", 1, "refunded 1000 EUR in the books, 2000 EUR in the report"),
        ),
        (
            "an amount off by one",
            replaced("txn_0,eur,10.00", "txn_0,eur,10.01"),
            of("pi_0", 0, "paid 1000 EUR in the books, 1001 EUR in the report"),
        ),
        (
            "another currency",
            replaced("txn_0,eur", "txn_0,usd"),
            of("pi_0", 0, "1000 EUR in the books, 1000 USD in the report"),
        ),
        (
            "a dispute",
            with(right[7].replace("pi_3", "pi_0")),
            of("pi_0", 0, "the report has a dispute that the books do not"),
        ),
    ] {
        assert_eq!(differences(&report), [expected], "{case}");
    }
    // Another business with the account names no orders of ours.
    assert_eq!(differences(&replaced("other.01ARZ3NDEKTSV4RRFFQ69G5FAV", "")), [""; 0]);
    let unnamed =
        Report::parse(&to_report(&right).replace("payment_metadata[order_no]", "description")).expect("a report");
    let unnamed = reconcile(&sales, &books, &[unnamed]).differences;
    assert_eq!(unnamed.len(), 1, "{unnamed:?}");
    assert!(unnamed[0].starts_with("the report does not name all orders"), "{unnamed:?}");
    let back = [format!("txn,eur,10.00,charge,pi_lost,{lost}"), format!("txn,eur,-10.00,refund,pi_lost,{lost}")];
    assert_eq!(differences(&[right.clone(), back.into()].concat()), [""; 0], "it came and went back");
    fs::write(&report, to_report(&right)).expect("a report");
    let all = Options { sale: None, updated_since: Some("2026-01-01T00:00:00Z".to_owned()), ..options.clone() };
    let reconciled = tokio::task::spawn_blocking(move || closing::run_reconcile(&all)).await.expect("a thread");
    assert!(reconciled.expect("a comparison"), "all sales, of which the app has one");
    let none = reconcile(&sales, &books, &[]).differences;
    assert_eq!(none, ["no report of the provider stripe: --provider-report"]);
    dispute(&app, "pi_3", "lost").await;
    let text = read_books(&app, &format!("activity={}&books=csv", activity.id)).await.join("\n");
    let lost = Entry::parse_all(&text).expect("entries");
    let reversal = right[7].replace(",dispute,", ",dispute_reversal,").replace(",-", ",");
    for report in [without(7), with(reversal)] {
        let report = Report::parse(&to_report(&report)).expect("a report");
        let found = reconcile(&sales, &lost, &[report]).differences;
        assert_eq!(found, [of("pi_3", 3, "the books have a lost dispute that the report does not")]);
    }
}

#[tokio::test]
async fn the_books_have_each_payment_refund_and_dispute_in_both_forms() {
    let app = TestApp::shared();
    let (activity, buyer, order_no) = app.create_order(json!({"per_user": 2})).await;
    let session = app.open_session(&order_no, &buyer.jwt).await;
    let unpaid = app.create_buyer(&activity, "bob").await;
    app.place_order(&activity, &unpaid).await;
    for (id, payment) in [("evt-books-1", "first"), ("evt-books-2", "second")] {
        let mut body = TestApp::callback_body("payment.succeeded", &order_no, &session);
        body["data"]["payment"] = json!(format!("{payment}-{session}"));
        app.send_callback(id, &body).await.is(204);
        app.wait_for_status(&order_no, &buyer.jwt, "paid").await;
    }
    let token = format!("Bearer {}", app.variables.get("admin_token"));
    let headers = [("authorization", token), ("idempotency-key", "a part".to_owned())];
    let (path, part) = (format!("/api/admin/orders/{order_no}/refund"), json!({"amount": 300, "reason": "a scratch"}));
    app.http.send_with_headers(Method::POST, &path, &headers, part.to_string()).await.expect("an answer").is(202);
    let query = format!("activity={}&limit=1&books=", activity.id);
    let lines = read_books(&app, &format!("{query}jsonl")).await;
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found: Vec<_> =
        lines.iter().map(|line| (line["entry"].as_str().expect("a word"), line["amount"].as_i64())).collect();
    let expected =
        [("payment", Some(1_000)), ("refund", Some(300)), ("second_payment", Some(1_000)), ("refund", Some(1_000))];
    assert_eq!(found, expected, "{lines:?}");
    assert!(lines.iter().all(|line| line["order_no"] == *order_no && line["provider"] == "sandbox"), "{lines:?}");
    let session = lines[0]["session"].as_str().expect("text");
    assert!(session.starts_with("session_") && lines[0]["sku"] == "a", "{lines:?}");

    let csv = read_books(&app, &format!("{query}csv")).await;
    assert_eq!(csv.len(), 5, "the columns' names are there once: {csv:?}");
    assert!(csv[0].starts_with("order_no,order_status,sku,") && csv[1].contains(",payment,"), "{csv:?}");
    for query in ["books=pdf", "books=csv&addresses=true"] {
        let path = format!("/orders?activity={}&{query}", activity.id);
        app.call_admin(Method::GET, &path, &Value::Null).await.is_problem(400, "invalid_request");
    }
}
