//! Sales and buyers: from the operator's description to the order.

use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Answer, Claims, TestApp, eventually};

/// A published sale that is open.
#[derive(Debug, Clone)]
pub struct Sale {
    pub id: String,
    pub start_key: String,
}

/// Somebody with a ticket for a sale.
#[derive(Debug, Clone)]
pub struct Buyer {
    pub user: String,
    pub jwt: String,
    pub ticket: String,
}

/// A moment from now, as the API writes it.
pub fn in_seconds(seconds: i64) -> String {
    (OffsetDateTime::now_utc() + Duration::seconds(seconds)).format(&Rfc3339).expect("a time")
}

/// A description that is open for an hour: one SKU `a`, ten units, no limits. `changes` replaces members of it.
pub fn description(changes: &Value) -> Value {
    let mut description = json!({
        "title": "A test",
        "starts_at": in_seconds(-60),
        "ends_at": in_seconds(3600),
        "pay_timeout_seconds": 600,
        "per_user": 1,
        "limits": {"user": null, "ip": null, "all": null},
        "skus": [{"sku": "a", "name": "A thing", "price": 1000, "currency": "EUR", "total": 10}],
    });
    for (name, value) in changes.as_object().expect("an object") {
        description[name] = value.clone();
    }
    description
}

/// The one SKU `a` with some units.
pub fn units(total: i64) -> Value {
    json!([{"sku": "a", "name": "A thing", "price": 1000, "currency": "EUR", "total": total}])
}

/// A name that no other test uses.
pub fn new_id(of: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{of}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl TestApp {
    /// Creates and publishes a sale, and waits until it is open.
    pub async fn sale(&self, changes: Value) -> Sale {
        self.sale_named(&new_id("sale"), changes).await
    }

    /// The same with a name that is given.
    pub async fn sale_named(&self, id: &str, changes: Value) -> Sale {
        self.admin(Method::PUT, &format!("/activities/{id}"), &description(&changes)).await.is(200);
        self.admin(Method::POST, &format!("/activities/{id}/publish"), &Value::Null).await.is(200);
        let start_key = eventually("the start key", async || {
            let gate = self.http.get(&format!("/api/activities/{id}/gate.json"), "").await;
            if gate.status == 200 && gate.json()["phase"] == "open" {
                Ok(gate.text("start_key"))
            } else {
                Err(gate.body)
            }
        })
        .await;
        // Each function learns of a new sale by itself (F5: within two seconds).
        eventually("tickets", async || {
            let answer = self.ticket(id, &self.sign_in("somebody")).await;
            if answer.status == 404 { Err(answer.body) } else { Ok(()) }
        })
        .await;
        Sale { id: id.to_owned(), start_key }
    }

    /// A user's token.
    pub fn sign_in(&self, user: &str) -> String {
        Claims::of(user, &self.variables).sign(&self.variables)
    }

    /// Asks for a ticket.
    pub async fn ticket(&self, activity: &str, jwt: &str) -> Answer {
        self.http.post(&format!("/api/activities/{activity}/ticket"), jwt, &json!({})).await
    }

    /// Somebody with a ticket.
    pub async fn buyer(&self, sale: &Sale, user: &str) -> Buyer {
        let jwt = self.sign_in(user);
        let ticket = self.ticket(&sale.id, &jwt).await.is(201).text("ticket");
        Buyer { user: user.to_owned(), jwt, ticket }
    }

    /// So many of them, each with a name of their own.
    pub async fn buyers(&self, sale: &Sale, number: usize) -> Vec<Buyer> {
        let mut buyers = Vec::with_capacity(number);
        while buyers.len() < number {
            let names = (buyers.len()..number).take(50).map(|at| format!("buyer-{at}"));
            let some = names.map(async |name| self.buyer(sale, &name).await);
            buyers.extend(join_all(some).await);
        }
        buyers
    }

    /// The body of a reservation.
    pub fn reservation(sale: &Sale, buyer: &Buyer, sku: &str, quantity: i64) -> Value {
        json!({"sku": sku, "quantity": quantity, "ticket": buyer.ticket, "start_key": sale.start_key})
    }

    /// Tries to reserve.
    pub async fn reserve(&self, sale: &Sale, buyer: &Buyer, sku: &str, quantity: i64) -> Answer {
        let body = Self::reservation(sale, buyer, sku, quantity);
        self.http.post(&format!("/api/activities/{}/orders", sale.id), "", &body).await
    }

    /// Reserves one unit of `a` and waits until it can be paid.
    pub async fn order(&self, sale: &Sale, buyer: &Buyer) -> String {
        let order_no = self.reserve(sale, buyer, "a", 1).await.is(202).text("order_no");
        self.wait_for(&order_no, &buyer.ticket, "pending_payment").await;
        order_no
    }

    /// An order as its owner sees it.
    pub async fn status(&self, order_no: &str, token: &str) -> Answer {
        self.http.get(&format!("/api/orders/{order_no}"), token).await
    }

    /// Polls an order until it is in a state.
    pub async fn wait_for(&self, order_no: &str, token: &str, status: &str) -> Value {
        eventually(&format!("{order_no} to be {status}"), async || {
            let order = self.status(order_no, token).await;
            if order.status == 200 && order.text("status") == status { Ok(order.json()) } else { Err(order.body) }
        })
        .await
    }

    pub async fn cancel(&self, order_no: &str, jwt: &str) -> Answer {
        self.http.post(&format!("/api/orders/{order_no}/cancel"), jwt, &Value::Null).await
    }

    pub async fn refund(&self, order_no: &str, jwt: &str) -> Answer {
        self.http.post(&format!("/api/orders/{order_no}/refund"), jwt, &Value::Null).await
    }

    pub async fn stats(&self, activity: &str) -> Value {
        self.admin(Method::GET, &format!("/activities/{activity}/stats"), &Value::Null).await.is(200).json()
    }

    /// The audit at this moment, whatever it says.
    pub async fn audit(&self, activity: &str) -> Value {
        self.admin(Method::GET, &format!("/activities/{activity}/audit"), &Value::Null).await.is(200).json()
    }

    /// Waits until nothing is on its way any more, sweeping meanwhile, and asserts every invariant: in the audit, and
    /// counted here from Redis and the ledger. Answers left, held and sold of SKU `a`.
    pub async fn settled(&self, sale: &Sale) -> [i64; 3] {
        let audit = eventually("the books to agree", async || {
            // Who comes while a store is busy is told to come back.
            let swept = self.http.post("/api/tasks/sweep", self.variables.get("cron_token"), &Value::Null).await;
            let audit = self.admin(Method::GET, &format!("/activities/{}/audit", sale.id), &Value::Null).await;
            if let Some(busy) = [&swept, &audit].into_iter().find(|answer| answer.status == 503) {
                return Err(busy.body.clone());
            }
            swept.is(200);
            let audit = audit.is(200).json();
            let at_rest = audit["queue"] == 0 && audit["drift"] == 0;
            if at_rest { Ok(audit) } else { Err(audit.to_string()) }
        })
        .await;
        assert_eq!(audit["ok"], true, "{audit}");
        let sku = audit["skus"].as_array().and_then(|skus| skus.iter().find(|sku| sku["redis"]["sku"] == "a"));
        let redis = &sku.expect("SKU a")["redis"];
        let [total, left, held, sold] = ["total", "left", "held", "sold"].map(|name| redis[name].as_i64().expect(name));
        assert_eq!(left + held + sold, total, "{audit}");
        let live = format!(
            "SELECT CAST(COALESCE(SUM(quantity), 0) AS BIGINT) FROM orders \
            WHERE activity = '{}' AND sku = 'a' AND live = 1",
            sale.id
        );
        assert_eq!(self.ledger_number(&live).await, held + sold, "{audit}");
        let stock: i64 = redis::cmd("GET")
            .arg(format!("{{{}}}:stock:a", sale.id))
            .query_async(&mut self.redis().await)
            .await
            .expect("a stock");
        assert_eq!(stock, left, "{audit}");
        [left, held, sold]
    }
}
