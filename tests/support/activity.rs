//! Activities, buyers and orders for tests, created through the HTTP API.

use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Claims, Response, TestApp, eventually};

/// A published activity that is open.
#[derive(Debug, Clone)]
pub struct TestActivity {
    /// Id of the activity.
    pub id: String,
    /// Start key, as the gate publishes it while the activity is open.
    pub start_key: String,
}

/// A signed-in user with an unused ticket for one activity.
#[derive(Debug, Clone)]
pub struct Buyer {
    /// User id, the token's `sub`.
    pub user: String,
    /// Sign-in token.
    pub jwt: String,
    /// Ticket for one reservation.
    pub ticket: String,
}

impl Buyer {
    /// The number of the order that the ticket makes, which is in its text: `1.<key>.<activity>.<ULID>.…`.
    pub fn order_no(&self) -> String {
        self.ticket.split('.').skip(2).take(2).collect::<Vec<_>>().join(".")
    }
}

/// The time `seconds` from now in RFC 3339; negative values lie in the past.
pub fn seconds_from_now(seconds: i64) -> String {
    (OffsetDateTime::now_utc() + Duration::seconds(seconds)).format(&Rfc3339).expect("a time")
}

/// Body of `PUT /api/admin/activities/:activity`: open for an hour, one SKU `a` with ten units, no rate limits.
/// The members of `overrides` replace those of the default.
pub fn activity_spec(overrides: &Value) -> Value {
    let mut spec = json!({
        "title": "A test",
        "starts_at": seconds_from_now(-60),
        "ends_at": seconds_from_now(3600),
        "pay_timeout_seconds": 600,
        "per_user": 1,
        "limits": {"user": null, "ip": null, "all": null},
        "skus": [{"sku": "a", "name": "A thing", "price": 1000, "currency": "EUR", "total": 10}],
    });
    for (name, value) in overrides.as_object().expect("an object") {
        spec[name] = value.clone();
    }
    spec
}

/// The member `skus` with the single SKU `a` at 10.00 EUR and `total` units.
pub fn single_sku(total: i64) -> Value {
    json!([{"sku": "a", "name": "A thing", "price": 1000, "currency": "EUR", "total": total}])
}

/// An activity id that is unique within the test process.
pub fn unique_id(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl TestApp {
    /// Creates and publishes an activity with a generated id, and waits until it is open.
    pub async fn create_activity(&self, overrides: Value) -> TestActivity {
        self.create_activity_with_id(&unique_id("sale"), overrides).await
    }

    /// As [`TestApp::create_activity`], with the given id.
    pub async fn create_activity_with_id(&self, id: &str, overrides: Value) -> TestActivity {
        self.call_admin(Method::PUT, &format!("/activities/{id}"), &activity_spec(&overrides)).await.is(200);
        self.call_admin(Method::POST, &format!("/activities/{id}/publish"), &Value::Null).await.is(200);
        let start_key = eventually("the start key", async || {
            let gate = self.http.get(&format!("/api/activities/{id}/gate.json"), "").await;
            if gate.status == 200 && gate.json()["phase"] == "open" {
                Ok(gate.text("start_key"))
            } else {
                Err(gate.body)
            }
        })
        .await;
        // Each function caches activities separately and sees a new one within two seconds (F5).
        eventually("tickets", async || {
            let response = self.request_ticket(id, &self.sign_in("somebody")).await;
            if response.status == 404 { Err(response.body) } else { Ok(()) }
        })
        .await;
        TestActivity { id: id.to_owned(), start_key }
    }

    /// Returns a sign-in token for `user`, valid for an hour.
    pub fn sign_in(&self, user: &str) -> String {
        Claims::for_user(user, &self.variables).sign(&self.variables)
    }

    /// Requests a ticket without an answer to a human check.
    pub async fn request_ticket(&self, activity_id: &str, jwt: &str) -> Response {
        self.http.post(&format!("/api/activities/{activity_id}/ticket"), jwt, &json!({})).await
    }

    /// Signs `user` in and requests a ticket; panics if the ticket is refused.
    pub async fn create_buyer(&self, activity: &TestActivity, user: &str) -> Buyer {
        let jwt = self.sign_in(user);
        let ticket = self.request_ticket(&activity.id, &jwt).await.is(201).text("ticket");
        Buyer { user: user.to_owned(), jwt, ticket }
    }

    /// Creates `count` buyers with different user ids, fifty at a time.
    pub async fn create_buyers(&self, activity: &TestActivity, count: usize) -> Vec<Buyer> {
        let mut buyers = Vec::with_capacity(count);
        while buyers.len() < count {
            let names = (buyers.len()..count).take(50).map(|index| format!("buyer-{index}"));
            let requests = names.map(async |name| self.create_buyer(activity, &name).await);
            buyers.extend(join_all(requests).await);
        }
        buyers
    }

    /// The request body of a reservation.
    pub fn reservation_body(activity: &TestActivity, buyer: &Buyer, sku: &str, quantity: i64) -> Value {
        json!({"sku": sku, "quantity": quantity, "ticket": buyer.ticket, "start_key": activity.start_key})
    }

    /// Sends a reservation.
    pub async fn reserve(&self, activity: &TestActivity, buyer: &Buyer, sku: &str, quantity: i64) -> Response {
        let body = Self::reservation_body(activity, buyer, sku, quantity);
        self.http.post(&format!("/api/activities/{}/orders", activity.id), "", &body).await
    }

    /// Reserves one unit of `a`, waits until the order is `pending_payment`, and returns its number.
    pub async fn place_order(&self, activity: &TestActivity, buyer: &Buyer) -> String {
        let order_no = self.reserve(activity, buyer, "a", 1).await.is(202).text("order_no");
        self.wait_for_status(&order_no, &buyer.ticket, "pending_payment").await;
        order_no
    }

    /// Creates an activity, a buyer of it, and an order of one unit that is `pending_payment`.
    pub async fn create_order(&self, overrides: Value) -> (TestActivity, Buyer, String) {
        let activity = self.create_activity(overrides).await;
        let buyer = self.create_buyer(&activity, "ada").await;
        let order_no = self.place_order(&activity, &buyer).await;
        (activity, buyer, order_no)
    }

    /// Requests an order; `token` is a sign-in token or the order's ticket.
    pub async fn get_order(&self, order_no: &str, token: &str) -> Response {
        self.http.get(&format!("/api/orders/{order_no}"), token).await
    }

    /// Polls an order until it has `status`, and returns its document.
    pub async fn wait_for_status(&self, order_no: &str, token: &str, status: &str) -> Value {
        eventually(&format!("{order_no} to be {status}"), async || {
            let order = self.get_order(order_no, token).await;
            if order.status == 200 && order.text("status") == status { Ok(order.json()) } else { Err(order.body) }
        })
        .await
    }

    /// Sweeps until an order is written to the ledger.
    pub async fn sweep_until_written(&self, order_no: &str, ticket: &str) {
        eventually("the order to be written", async || {
            self.sweep().await;
            let order = self.get_order(order_no, ticket).await;
            if order.text("status") == "pending_payment" { Ok(()) } else { Err(order.body) }
        })
        .await;
    }

    /// Requests the cancellation of an unpaid order.
    pub async fn cancel(&self, order_no: &str, jwt: &str) -> Response {
        self.http.post(&format!("/api/orders/{order_no}/cancel"), jwt, &Value::Null).await
    }

    /// Requests the refund of a paid order.
    pub async fn refund(&self, order_no: &str, jwt: &str) -> Response {
        self.http.post(&format!("/api/orders/{order_no}/refund"), jwt, &Value::Null).await
    }

    /// Sweeps until the provider has confirmed the refund of an order.
    pub async fn sweep_until_refunded(&self, order_no: &str, jwt: &str) {
        eventually("the money to be back", async || {
            self.sweep().await;
            let order = self.get_order(order_no, jwt).await.json();
            if order["status"] == "refunded" { Ok(()) } else { Err(order) }
        })
        .await;
    }

    /// Returns the operator's live figures of an activity.
    pub async fn stats(&self, activity_id: &str) -> Value {
        self.call_admin(Method::GET, &format!("/activities/{activity_id}/stats"), &Value::Null).await.is(200).json()
    }

    /// Returns the current audit of an activity, whether or not it is `ok`.
    pub async fn audit(&self, activity_id: &str) -> Value {
        self.call_admin(Method::GET, &format!("/activities/{activity_id}/audit"), &Value::Null).await.is(200).json()
    }

    /// Sweeps until the queue is empty and the audit reports no drift, then asserts that the audit is `ok`.
    ///
    /// Of SKU `a`, also compares the audit's figures with the stock in Redis and the live units in the ledger. Returns
    /// left, held and sold of that SKU.
    pub async fn finish_and_count(&self, activity: &TestActivity) -> [i64; 3] {
        let audit = eventually("Redis and the ledger to agree", async || {
            // Both routes return 503 while a store is busy: retry.
            let swept = self.http.post("/api/tasks/sweep", self.variables.get("cron_token"), &Value::Null).await;
            // A sweep finds nothing to do while another sweeper has the lease, so the ledger itself is asked. It is
            // asked before the audit: of orders that expire in between, the audit might know nothing yet.
            let due = format!(
                "status = 'pending_payment' AND pay_by <= {}",
                OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000
            );
            let due = self.count_orders(&activity.id, &due).await;
            let audit = self.call_admin(Method::GET, &format!("/activities/{}/audit", activity.id), &Value::Null).await;
            if let Some(busy) = [&swept, &audit].into_iter().find(|response| response.status == 503) {
                return Err(busy.body.clone());
            }
            swept.is(200);
            let audit = audit.is(200).json();
            let synced = audit["queue"] == 0 && audit["drift"] == 0 && due == 0;
            if synced { Ok(audit) } else { Err(format!("{due} due; {audit}")) }
        })
        .await;
        assert_eq!(audit["ok"], true, "{audit}");
        let sku = audit["skus"].as_array().and_then(|skus| skus.iter().find(|sku| sku["redis"]["sku"] == "a"));
        let redis = &sku.expect("SKU a")["redis"];
        let [total, left, held, sold] = ["total", "left", "held", "sold"].map(|name| redis[name].as_i64().expect(name));
        assert_eq!(left + held + sold, total, "{audit}");
        let live_units = format!(
            "SELECT CAST(COALESCE(SUM(quantity), 0) AS BIGINT) FROM orders \
            WHERE activity = '{}' AND sku = 'a' AND live = 1",
            activity.id
        );
        assert_eq!(self.query_ledger_i64(&live_units).await, held + sold, "{audit}");
        let stock = self.ask_redis::<i64>(&["HGET", &format!("{{{}}}:stats", activity.id), "left:a"]).await;
        assert_eq!(stock, left, "{audit}");
        [left, held, sold]
    }
}
