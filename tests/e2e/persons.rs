//! One person's data is exported, and erased where no law obliges the shop to keep it (G12).

use reqwest::Method;
use serde_json::{Value, json};
use support::TestApp;

#[tokio::test]
async fn a_persons_data_is_exported_and_what_need_not_be_kept_is_erased() {
    let app = TestApp::dedicated();
    let (activity, ada, order_no) = app.create_order(json!({})).await;
    let call = async |method: Method, path: &str| app.call_admin(method, path, &Value::Null).await.is(200).json();
    app.pay(&order_no, &ada.jwt).await;
    let bob = app.create_buyer(&activity, "bob").await;
    let unpaid = app.place_order(&activity, &bob).await;
    app.checkout(&unpaid, &bob.jwt).await.is(200);
    let ban = json!({"seconds": 60, "reason": "asked us to"});
    app.call_admin(Method::PUT, "/bans/user/ada", &ban).await.is(200);

    let data = call(Method::GET, "/users/ada").await;
    let order = &data["items"][0];
    assert_eq!((&order["order_no"], &order["address"]["line1"]), (&json!(order_no), &json!("1 Mill Lane")), "{data}");
    assert_eq!(
        (&data["books"][0]["entry"], &data["ban"]["reason"]),
        (&json!("payment"), &json!("asked us to")),
        "{data}"
    );
    assert_eq!((&data["strikes"]["count"], &data["codes"], &data["next"]), (&json!(0), &json!([]), &Value::Null));

    let erased = json!({"addresses": 1, "codes": 0, "strikes": 0});
    assert_eq!(call(Method::DELETE, "/users/ada").await, erased);
    assert_eq!(call(Method::DELETE, "/users/bob").await["addresses"], 0, "the order waits for payment");
    let data = call(Method::GET, "/users/ada").await;
    assert_eq!((&data["items"][0]["address"], &data["items"][0]["user"]), (&Value::Null, &json!("ada")), "{data}");
    assert_eq!(data["books"].as_array().map(Vec::len), Some(1), "{data}");
    assert_ne!(call(Method::GET, "/users/bob").await["items"][0]["address"], Value::Null);
    let change = &call(Method::GET, "/changes").await["items"][0];
    assert_eq!((&change["action"], &change["subject"]), (&json!("DELETE /api/admin/users/:user"), &json!("ada")));
    let refused = app.call_admin(Method::GET, "/users/ada?before=x", &Value::Null).await;
    refused.is_problem(400, "invalid_request").points_at("?before");
}
