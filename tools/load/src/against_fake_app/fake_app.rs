//! An in-memory app that keeps the HTTP contract, or violates it in one chosen way.

mod line;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::net::TcpListener;

/// How the app violates the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Loses every third response to a reservation, after the order was made.
    LosesResponses,
    /// Answers every third reservation `503 not_ready`, after the order was made: Redis died before its reply.
    LosesRedisReplies,
    /// For a second and a half after an offer, shows every third entry as waiting: Redis is away, and the ledger behind.
    LedgerIsBehind,
    /// Breaks every connection from 0.25 s to 2 s after the start.
    DownAfterStart,
    /// Sells up to three units more than it has; its own figures agree with that.
    Oversells,
    /// Returns `404` for its first order.
    LosesOrder,
    IgnoresPerUser,
    /// Returns the units of the first cancelled or expired order twice.
    ReturnsTwice,
    /// Makes another order each time a ticket is used.
    ReusesTickets,
    /// Accepts payments, but lets the orders expire.
    IgnoresPayments,
    /// Never writes a queued order to the ledger.
    QueueStuck,
    /// Sells units that came back to requests that come before the next sweep.
    ServesRobots,
    /// Offers units to the end of the line.
    PassesOver,
    /// Forgets to end the line when the sale is closed.
    NeverEndsLine,
    /// Returns `500` for activity info.
    InfoFails,
}

struct Order {
    user: String,
    ticket: String,
    sku: String,
    quantity: i64,
    status: &'static str,
    /// Why the line ended for it; empty for an order that got units.
    reason: &'static str,
    created_at: Instant,
    /// When its unit was offered, if it waited.
    offered_at: Option<Instant>,
}

impl Order {
    /// Whether it is no order, but waits in the line or left it.
    fn is_entry(&self) -> bool {
        self.status == "waiting" || !self.reason.is_empty()
    }

    fn is_live(&self) -> bool {
        ["queued", "pending_payment", "paid"].contains(&self.status)
    }
}

type Activities = BTreeMap<String, FakeActivity>;

#[derive(Default)]
struct FakeActivity {
    spec: Value,
    opens_at: Option<OffsetDateTime>,
    left: BTreeMap<String, i64>,
    orders: BTreeMap<String, Order>,
    reservations: u32,
    returned_twice: bool,
}

/// Status and body of a response, or `None` to break the connection.
type Reply = Option<(u16, Value)>;

/// Starts the app and returns its URL.
pub async fn start(fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let activities = Arc::new(Mutex::new(Activities::default()));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let activities = activities.clone();
            let service = service_fn(move |request| handle(activities.clone(), fault, request));
            tokio::spawn(async move {
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    url
}

async fn handle(
    activities: Arc<Mutex<Activities>>,
    fault: Fault,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let bearer = head.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let path = head.uri.path();
    let reply = route(&mut activities.lock().unwrap(), fault, &head.method, path, bearer.unwrap_or_default(), &body);
    let Some((status, body)) = reply else { return Err(std::io::Error::other("crash")) };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = Response::builder().status(status).header("content-type", "application/json");
    let response = if status == 202 { response.header("retry-after", "0") } else { response };
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

fn route(activities: &mut Activities, fault: Fault, method: &Method, path: &str, bearer: &str, body: &Value) -> Reply {
    if fault == Fault::DownAfterStart && activities.values().any(FakeActivity::is_down) {
        return None;
    }
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let id = match segments[..] {
        ["healthz"] | ["hello" | "body" | "ping" | "write"] => return Some((200, json!({}))),
        ["sandbox", "sign-in"] => return Some((200, json!({"token": body["user"]}))),
        ["api", "admin", "dead-letters"] => return Some((200, json!({"items": [], "next": null}))),
        ["api", "orders"] => {
            let own: Vec<_> = activities.values().flat_map(|activity| activity.orders_of(bearer)).collect();
            return Some((200, json!({"items": own, "next": null})));
        }
        ["api", "tasks", "sweep"] => {
            activities.values_mut().for_each(|activity| activity.sweep(fault));
            return Some((200, json!({"swept": true, "more": false})));
        }
        ["api", "payments", "webhook"] => body["data"]["order_no"].as_str()?.split('.').next()?,
        ["api", "activities", id, ..] | ["api", "admin", "activities", id, ..] => id,
        ["api", "orders", order_no, ..] | ["sandbox", "pay", order_no] => order_no.split('.').next()?,
        _ => return problem(404, "not_found"),
    };
    let activity = activities.entry(id.to_owned()).or_default();
    match (method.as_str(), &segments[..]) {
        ("PUT", ["api", "admin", "activities", _]) => {
            activity.spec = body.clone();
            Some((200, body.clone()))
        }
        ("POST", ["api", "admin", "activities", _, "publish"]) => activity.publish(),
        ("POST", ["api", "admin", "activities", _, "close"]) => activity.close(fault),
        ("GET", ["api", "admin", "activities", _, "stats"]) => {
            activity.run_order_writer(fault);
            Some((200, activity.stats()))
        }
        ("GET", ["api", "admin", "activities", _, "audit"]) => Some((200, activity.audit())),
        ("GET", ["api", "activities", _]) if fault == Fault::InfoFails => problem(500, "internal"),
        ("GET", ["api", "activities", _]) => Some((200, activity.spec.clone())),
        ("GET", ["api", "activities", _, "gate.json"]) => Some((200, activity.gate())),
        ("POST", ["api", "activities", _, "ticket"]) => {
            let ticket = format!("ticket-{}-{}", bearer, fastrand::u64(..));
            Some((201, json!({"ticket": ticket, "expires_at": "2100-01-01T00:00:00Z"})))
        }
        ("POST", ["api", "activities", _, "orders"]) => activity.reserve(fault, id, body),
        ("GET", ["api", "orders", order_no]) => activity.status(fault, order_no, bearer),
        ("POST", ["api", "orders", order_no, "checkout"]) => {
            Some((200, json!({"checkout_url": format!("http://elsewhere/sandbox/pay/{order_no}")})))
        }
        ("POST", ["api", "payments", "webhook"]) => activity.pay(fault, body["data"]["order_no"].as_str()?),
        ("POST", ["sandbox", "pay", order_no]) => activity.pay(fault, order_no),
        ("POST", ["api", "orders", order_no, "cancel"]) => activity.cancel(fault, order_no),
        _ => problem(404, "not_found"),
    }
}

fn problem(status: u16, code: &str) -> Reply {
    Some((status, json!({"status": status, "code": code, "detail": code})))
}

impl FakeActivity {
    fn is_down(&self) -> bool {
        let second = time::Duration::SECOND;
        self.opens_at.is_some_and(|opens_at| {
            let now = OffsetDateTime::now_utc();
            // Open long enough for the buyers to see the gate.
            now > opens_at + second / 4 && now < opens_at + second * 2
        })
    }

    fn publish(&mut self) -> Reply {
        self.opens_at = OffsetDateTime::parse(self.spec["starts_at"].as_str()?, &Rfc3339).ok();
        for sku in self.spec["skus"].as_array()? {
            self.left.insert(sku["sku"].as_str()?.to_owned(), sku["total"].as_i64()?);
        }
        Some((200, self.spec.clone()))
    }

    fn gate(&self) -> Value {
        let now = OffsetDateTime::now_utc();
        let open = self.opens_at.is_some_and(|opens_at| now >= opens_at);
        let mut gate = json!({
            "phase": if open { "open" } else { "scheduled" },
            "server_time": now.format(&Rfc3339).unwrap(),
            "starts_at": self.spec["starts_at"],
            "jitter_ms": 500,
            "sold_out": self.left.keys().filter(|sku| self.line_units() > 0 && self.waiting(sku).count() >= self.line_units()).collect::<Vec<_>>(),
        });
        if open {
            gate["start_key"] = "the key".into();
        }
        gate
    }

    fn reserve(&mut self, fault: Fault, activity: &str, body: &Value) -> Reply {
        if body["start_key"] != "the key" {
            return problem(403, "start_key_invalid");
        }
        let ticket = body["ticket"].as_str()?;
        let sku = body["sku"].as_str()?;
        let quantity = body["quantity"].as_i64()?;
        let user = ticket.strip_prefix("ticket-")?.rsplit_once('-')?.0;
        self.reservations += 1;
        let replay = self.orders.iter().find(|(_, order)| order.ticket == ticket).map(|(order_no, _)| order_no.clone());
        let order_no = match replay.filter(|_| fault != Fault::ReusesTickets) {
            Some(order_no) => order_no,
            None => {
                let holds: i64 =
                    self.units(&body["sku"], |order| order.user == user && order.is_live()).into_values().sum();
                if holds + quantity > self.spec["per_user"].as_i64()? && fault != Fault::IgnoresPerUser {
                    return problem(409, "limit_reached");
                }
                if self.joins_line(fault, sku) {
                    match self.join(activity, (user, ticket, sku, quantity)) {
                        Ok(order_no) => order_no,
                        Err(code) => return problem(409, code),
                    }
                } else {
                    let left = self.left.get_mut(sku)?;
                    let limit = if fault == Fault::Oversells { quantity - 3 } else { quantity };
                    if *left < limit {
                        return problem(409, "sold_out");
                    }
                    *left -= quantity;
                    self.add_order(activity, (user, ticket, sku, quantity), "queued")
                }
            }
        };
        if self.reservations.is_multiple_of(3) {
            match fault {
                Fault::LosesResponses => return None,
                Fault::LosesRedisReplies => return problem(503, "not_ready"),
                _ => {}
            }
        }
        Some((202, self.document(&order_no)))
    }

    /// Adds an order of a user with a ticket for a SKU and returns its number.
    fn add_order(
        &mut self,
        activity: &str,
        (user, ticket, sku, quantity): (&str, &str, &str, i64),
        status: &'static str,
    ) -> String {
        let order_no = format!("{activity}.{:08}", self.orders.len());
        let (user, ticket, sku) = (user.to_owned(), ticket.to_owned(), sku.to_owned());
        let order =
            Order { user, ticket, sku, quantity, status, reason: "", created_at: Instant::now(), offered_at: None };
        self.orders.insert(order_no.clone(), order);
        order_no
    }

    fn document(&self, order_no: &str) -> Value {
        let order = &self.orders[order_no];
        let mut document = json!({"order_no": order_no, "status": order.status, "sku": order.sku,
                                  "quantity": order.quantity, "reason": order.reason});
        if order.status == "waiting" {
            document["ahead"] = self.waiting(&order.sku).take_while(|other| *other != order_no).count().into();
        }
        document
    }

    fn orders_of(&self, user: &str) -> Vec<Value> {
        let own = self.orders.iter().filter(|(_, order)| order.user == user);
        own.map(|(order_no, _)| self.document(order_no)).collect()
    }

    /// Acts as the order writer: queued orders become `pending_payment`.
    fn run_order_writer(&mut self, fault: Fault) {
        if fault != Fault::QueueStuck {
            self.orders.values_mut().filter(|order| order.status == "queued").for_each(|order| {
                order.status = "pending_payment";
            });
        }
    }

    fn status(&mut self, fault: Fault, order_no: &str, bearer: &str) -> Reply {
        if fault == Fault::LosesOrder && order_no.ends_with(".00000000") {
            return problem(404, "not_found");
        }
        self.run_order_writer(fault);
        let Some(order) = self.orders.get(order_no) else { return problem(404, "not_found") };
        if order.ticket != bearer && order.user != bearer {
            return problem(401, "unauthenticated");
        }
        let mut document = self.document(order_no);
        if fault == Fault::LedgerIsBehind && order.is_offer_hidden(order_no) {
            document["status"] = "waiting".into(); // And no `ahead`.
        }
        Some((200, document))
    }

    fn pay(&mut self, fault: Fault, order_no: &str) -> Reply {
        let order = self.orders.get_mut(order_no)?;
        if fault == Fault::IgnoresPayments {
            return Some((204, Value::Null));
        }
        match order.status {
            "pending_payment" | "paid" => order.status = "paid",
            _ => return problem(409, "state_conflict"),
        }
        Some((204, Value::Null))
    }

    fn cancel(&mut self, fault: Fault, order_no: &str) -> Reply {
        let order = self.orders.get_mut(order_no)?;
        if order.status == "waiting" {
            (order.status, order.reason) = ("cancelled", "left_line");
            return Some((200, self.document(order_no)));
        }
        if order.status != "pending_payment" {
            return problem(409, "state_conflict");
        }
        self.release(fault, order_no, "cancelled");
        Some((200, self.document(order_no)))
    }

    fn sweep(&mut self, fault: Fault) {
        let timeout = Duration::from_secs(self.spec["pay_timeout_seconds"].as_u64().unwrap());
        let due = self.orders.iter().filter(|(_, order)| {
            let unpaid = ["queued", "pending_payment"].contains(&order.status);
            unpaid && order.created_at.elapsed() > timeout && fault != Fault::QueueStuck
        });
        let due: Vec<String> = due.map(|(order_no, _)| order_no.clone()).collect();
        for order_no in due {
            self.release(fault, &order_no, "expired");
        }
        for sku in self.left.keys().cloned().collect::<Vec<_>>() {
            self.offer(fault, &sku);
        }
    }

    fn release(&mut self, fault: Fault, order_no: &str, status: &'static str) {
        let order = self.orders.get_mut(order_no).unwrap();
        order.status = status;
        let twice = fault == Fault::ReturnsTwice && !std::mem::replace(&mut self.returned_twice, true);
        *self.left.get_mut(&order.sku).unwrap() += order.quantity * if twice { 2 } else { 1 };
        if fault != Fault::ServesRobots {
            let sku = order.sku.clone();
            self.offer(fault, &sku);
        }
    }

    /// Units of a SKU, by user, in orders that `counts`.
    fn units(&self, sku: &Value, counts: impl Fn(&Order) -> bool) -> BTreeMap<&str, i64> {
        let mut units = BTreeMap::new();
        for order in self.orders.values().filter(|order| *sku == order.sku && counts(order)) {
            *units.entry(order.user.as_str()).or_default() += order.quantity;
        }
        units
    }

    fn stats(&self) -> Value {
        let skus = self.spec["skus"].as_array().unwrap().iter().map(|sku| {
            let units = |statuses: &[&str]| -> i64 {
                self.units(&sku["sku"], |order| statuses.contains(&order.status)).into_values().sum()
            };
            let (left, waiting) = (self.left[sku["sku"].as_str().unwrap()], self.waiting(sku["sku"].as_str().unwrap()).count());
            json!({"sku": sku["sku"], "total": sku["total"], "left": left, "waiting": waiting,
                   "to_offer": if waiting > 0 { left } else { 0 }, "held": units(&["queued", "pending_payment"]), "sold": units(&["paid"])})
        });
        let mut orders: BTreeMap<&str, u64> = BTreeMap::new();
        for order in self.orders.values().filter(|order| !order.is_entry()) {
            *orders.entry(order.status).or_default() += 1;
        }
        json!({"skus": skus.collect::<Vec<_>>(), "queue": orders.get("queued").unwrap_or(&0), "orders": orders})
    }

    fn audit(&self) -> Value {
        let stats = self.stats();
        let skus = stats["skus"].as_array().unwrap().iter().map(|sku| {
            let users = self.units(&sku["sku"], Order::is_live);
            let (live, most) = (users.values().sum::<i64>(), users.values().max().copied().unwrap_or_default());
            json!({"redis": sku, "ledger": {"live": live, "counted": live, "most_per_user": most}, "drift": 0})
        });
        json!({"skus": skus.collect::<Vec<_>>()})
    }
}
