//! What a shop needs to ship an order: the event, and the address that an operator with the role `fulfil` may read (E7, G2).

use std::{sync::mpsc, time::Duration};

use domain::http::routes::{Admin, Endpoint};
use reqwest::Method;
use serde_json::{Value, json};
use support::{OpenApi, TestApp, eventually, payments::use_events_endpoint};

use crate::attacks::log_up_to;

const TOKEN: &str = "Zt5-fulfil-9Qw7e2r4u6i8o0p1a3s5d7f9";

/// Starts an app with an endpoint for events, and an operator `wes` with the role `fulfil`.
fn with_fulfilment() -> (TestApp, mpsc::Receiver<Value>) {
    let mut events = None;
    let app = TestApp::with_variables(|variables| {
        events = Some(use_events_endpoint(variables));
        variables.set("operator_tokens", format!("wes:fulfil:{TOKEN}"));
    });
    (app, events.expect("an endpoint"))
}

/// Sweeps until the shop has received an event of this type about something.
async fn receive(app: &TestApp, events: &mpsc::Receiver<Value>, event_type: &str) -> Value {
    eventually(event_type, async || {
        app.sweep().await;
        let received = events.recv_timeout(Duration::from_millis(100)).map_err(|error| error.to_string())?;
        if received["type"] == event_type { Ok(received) } else { Err(received.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_ships_by_the_event_and_the_address_that_fulfil_reads() {
    let (app, events) = with_fulfilment();
    let sku = json!([{"sku": "a", "item": "Phone", "name": "Black", "price": 1000, "currency": "EUR", "total": 10}]);
    let (activity, ada, order_no) = app.create_order(json!({ "skus": sku })).await;
    app.pay(&order_no, &ada.jwt).await;
    let paid = receive(&app, &events, "order.paid").await;
    OpenApi::of_app().parse_message(&paid.to_string());
    let data = &paid["data"];
    let expected = json!([order_no, activity.id, "ada", "a", "Phone · Black", 1, 1000, "EUR"]);
    let names = ["order_no", "activity", "user", "sku", "name", "quantity", "amount", "currency"];
    assert_eq!(json!(names.map(|name| &data[name])), expected, "{paid}");
    let order = app.call_admin(Method::GET, &format!("/orders/{order_no}"), &Value::Null).await.is(200).json();
    assert!(data["payment"].is_string() && data["payment"] == order["payment"], "{paid}");

    let bob = app.create_buyer(&activity, "bob").await;
    let unpaid = app.place_order(&activity, &bob).await;
    let get = async |path: &str| app.http.get(&format!("/api/admin{path}"), TOKEN).await.is(200);
    let alone = get(&format!("/orders/{order_no}")).await.json();
    assert_eq!((&alone["address"]["line1"], &alone["user"]), (&json!("1 Mill Lane"), &json!("ada")));
    for list in ["timeline", "callbacks", "refunds", "events"] {
        assert!(order[list].as_array().is_some_and(|list| !list.is_empty()) || list == "refunds", "{list}: {order}");
        assert_eq!(alone[list], json!([]), "{list}");
    }
    let path = format!("/orders?activity={}", activity.id);
    let page = get(&format!("{path}&addresses=true")).await;
    let last = page.header("x-request-id").to_owned();
    let page = page.json();
    let addresses: Vec<_> =
        page["items"].as_array().expect("orders").iter().map(|order| (&order["order_no"], &order["address"])).collect();
    let address =
        json!({"name": "Ada", "line1": "1 Mill Lane", "city": "London", "postal_code": "N1 9GU", "country": "GB"});
    assert_eq!(addresses, [(&json!(unpaid), &Value::Null), (&json!(order_no), &address)]);
    assert!(get(&path).await.json()["items"][0].get("address").is_none(), "an address that was not asked for");
    let refused = app.http.get(&format!("/api/admin{path}&addresses=1"), TOKEN).await;
    refused.is_problem(400, "invalid_request").points_at("?addresses");

    let text = log_up_to(&app, &last).await;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let reads: Vec<_> = lines.filter(|line| line["event"] == "addresses read").collect();
    let who = |line: &Value| json!([line["operator"], line["number"], line["request_id"]]);
    assert_eq!(reads.iter().map(who).collect::<Vec<_>>(), [json!(["wes", 1, last])], "{text}");
    assert!(!text.contains("Mill Lane"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fulfil_reads_orders_and_is_refused_everything_else() {
    let (app, _events) = with_fulfilment();
    let activity = app.create_activity(json!({})).await;
    let mut allowed = Vec::new();
    for (endpoint, route) in Admin::ALL.iter().zip(Admin::ROUTES) {
        let path = route.pattern.replace(":activity", &activity.id).replace(":user", "eve");
        let path = path.replace(":order_no", "x").replace(":sku", "a").replace(":ip", "192.0.2.7").replace(":id", "x");
        let response = app.http.send(route.method.clone(), &path, TOKEN, &Value::Null).await;
        if response.status == 403 {
            response.is_problem(403, "forbidden");
        } else {
            allowed.push(*endpoint);
        }
    }
    assert_eq!(allowed, [Admin::ListOrders, Admin::FindOrders, Admin::GetOrder]);
    app.http.get("/metrics", TOKEN).await.is(401);
    assert!(!app.http.get("/readyz", TOKEN).await.body.contains("checks"));
}
