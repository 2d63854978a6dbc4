//! The sweeper: expires due orders, and erases old activities (E3, G3, G12).

use reqwest::Method;
use serde_json::{Value, json};
use support::{TestApp, eventually};

#[tokio::test]
async fn the_sweep_route_accepts_only_the_cron_token() {
    let app = TestApp::shared();
    for token in ["", "wrong", app.variables.get("admin_token"), &app.sign_in("ada")] {
        app.http.post("/api/tasks/sweep", token, &Value::Null).await.is_problem(401, "unauthenticated");
    }
    let report = app.sweep().await;
    assert!(report.is_object(), "{report}");
}

#[tokio::test]
async fn an_unpaid_order_is_shown_as_expired_before_any_sweep() {
    let app = TestApp::shared();
    let activity = app.create_activity(json!({"pay_timeout_seconds": 1})).await;
    let buyer = app.create_buyer(&activity, "ada").await;
    let order_no = app.reserve(&activity, &buyer, "a", 1).await.is(202).text("order_no");
    app.wait_for_status(&order_no, &buyer.ticket, "expired").await;
    app.checkout(&order_no, &buyer.jwt).await.is_problem(409, "state_conflict");
    assert_eq!(app.finish_and_count(&activity).await, [10, 0, 0]);
    app.wait_for_status(&order_no, &buyer.ticket, "expired").await;
}

#[tokio::test]
async fn an_old_sale_is_exported_and_erased() {
    let app = TestApp::with_variables(|variables| variables.set("retention_days", "0"));
    let activity = app.create_activity(json!({})).await;
    let mut orders = Vec::new();
    for user in ["ada", "bob", "cyd"] {
        let buyer = app.create_buyer(&activity, user).await;
        orders.push(app.place_order(&activity, &buyer).await);
        app.cancel(orders.last().expect("an order"), &buyer.jwt).await.is(200);
    }
    orders.sort();
    orders.reverse();
    let path = format!("/activities/{}", activity.id);
    let (mut exported, mut next) = (Vec::new(), json!(""));
    while let Some(before) = next.as_str() {
        let page = format!("{path}/orders?limit=2&before={before}");
        let page = app.call_admin(Method::GET, &page, &Value::Null).await.is(200).json();
        exported.extend(page["items"].as_array().expect("a list").clone());
        next = page["next"].clone();
    }
    let numbers: Vec<_> = exported.iter().map(|order| order["order_no"].as_str().expect("a number")).collect();
    assert_eq!(numbers, orders);
    assert!(exported.iter().all(|order| order["status"] == "cancelled" && order["user"].is_string()), "{exported:?}");
    let other = app.create_activity(json!({})).await;
    for wrong in [format!("{path}/orders?limit=0"), format!("/activities/{}/orders?before={}", other.id, orders[0])] {
        app.call_admin(Method::GET, &wrong, &Value::Null).await.is_problem(400, "invalid_request");
    }

    // Redis may have its keys for eight days after its end.
    for change in [
        "activities SET starts_at = 0, ends_at = 1, updated_at = 0 WHERE id",
        "orders SET updated_at = 0 WHERE activity",
    ] {
        app.change_ledger(&format!("UPDATE {change} = '{}'", activity.id)).await;
    }
    eventually("the sale to be erased", async || {
        // Erasing begins again ten minutes after the last time.
        app.ask_redis::<i64>(&["DEL", "stampede:erase"]).await;
        let report = app.sweep().await;
        if report["erased_activities"] == 1 { Ok(()) } else { Err(report) }
    })
    .await;
    app.call_admin(Method::GET, &path, &Value::Null).await.is_problem(404, "not_found");
    assert_eq!(app.count_orders(&activity.id, "1 = 1").await, 0);
    app.call_admin(Method::GET, &format!("/activities/{}", other.id), &Value::Null).await.is(200);
}
