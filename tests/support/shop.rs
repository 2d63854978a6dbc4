//! Steps on an app that is not a [`super::TestApp`]: one that `up` or a unit of systemd started.

use dev::variables::Variables;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Claims, HttpClient, Response, activity::activity_spec, eventually};

/// An app of which only the address and the variables are known.
pub struct Shop {
    /// Client for the app's base URL.
    pub http: HttpClient,
    /// The app's variables.
    pub variables: Variables,
}

impl Shop {
    /// Creates and publishes an activity.
    pub async fn publish(&self, activity: &str) {
        let (path, token) = (format!("/api/admin/activities/{activity}"), self.variables.get("admin_token"));
        self.http.send(Method::PUT, &path, token, &activity_spec(&json!({}))).await.is(200);
        self.http.post(&format!("{path}/publish"), token, &Value::Null).await.is(200);
    }

    /// Reserves one unit as soon as the activity is open everywhere. Returns the order number and the buyer's token.
    pub async fn place_order(&self, activity: &str, user: &str) -> (String, String) {
        let (http, path) = (&self.http, format!("/api/activities/{activity}"));
        let jwt = Claims::for_user(user, &self.variables).sign(&self.variables);
        let order_no = eventually("an order", async || {
            let ticket = http.post(&format!("{path}/ticket"), &jwt, &json!({})).await;
            let gate = http.get(&format!("{path}/gate.json"), "").await;
            if ticket.status != 201 || gate.status != 200 {
                return Err(ticket.body + &gate.body);
            }
            let (ticket, start_key) = (ticket.text("ticket"), gate.text("start_key"));
            let reservation = json!({"sku": "a", "quantity": 1, "ticket": ticket, "start_key": start_key});
            let response = http.post(&format!("{path}/orders"), "", &reservation).await;
            if response.status == 202 { Ok(response.text("order_no")) } else { Err(response.body) }
        });
        (order_no.await, jwt)
    }

    /// Waits until the app, which may be starting, is ready.
    pub async fn wait_until_ready(&self) {
        self.wait_for("/readyz", self.variables.get("metrics_token"), |_| true).await;
    }

    /// Waits until an order is in the ledger of the app, which may be starting.
    pub async fn wait_until_pending(&self, order_no: &str, jwt: &str) {
        let is_pending = |order: &Response| order.text("status") == "pending_payment";
        self.wait_for(&format!("/api/orders/{order_no}"), jwt, is_pending).await;
    }

    /// Opens the sandbox's payment page of an order and pays; waits until the order is paid.
    pub async fn pay(&self, order_no: &str, jwt: &str) {
        let path = format!("/api/orders/{order_no}");
        let body = json!({"address": {"name": "Ada", "line1": "1 Mill Lane", "city": "London", "postal_code": "N1 9GU", "country": "GB"}});
        let page = self.http.post(&format!("{path}/checkout"), jwt, &body).await.is(200).text("checkout_url");
        let session = page.rsplit('/').next().unwrap_or_default();
        self.http.post(&format!("/sandbox/pay/{session}"), "", &json!({"outcome": "paid"})).await.is(200);
        self.wait_until_paid(order_no, jwt).await;
    }

    /// Waits until an order is paid.
    pub async fn wait_until_paid(&self, order_no: &str, jwt: &str) {
        self.wait_for(&format!("/api/orders/{order_no}"), jwt, |order| order.text("status") == "paid").await;
    }

    async fn wait_for(&self, path: &str, token: &str, is_wanted: impl Fn(&Response) -> bool) {
        eventually(path, async || match self.http.try_send(Method::GET, path, token, &Value::Null).await {
            Ok(response) if response.status == 200 && is_wanted(&response) => Ok(()),
            Ok(response) => Err(response.body),
            Err(error) => Err(error.to_string()),
        })
        .await;
    }
}
