//! Payments: through the sandbox's payment page, and with provider callbacks that the test signs.

use std::{
    io::{self, Read, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
};

use dev::variables::Variables;
use hmac::{Hmac, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use standardwebhooks::Webhook;
use time::OffsetDateTime;

use super::{HttpClient, Response, TestActivity, TestApp, activity::seconds_from_now};

const CALLBACK_PATH: &str = "/api/payments/webhook";

impl TestApp {
    /// Starts the checkout of an order with a fixed delivery address.
    pub async fn checkout(&self, order_no: &str, jwt: &str) -> Response {
        self.try_checkout(order_no, jwt).await.expect("an answer")
    }

    /// As [`TestApp::checkout`], for requests that the app may not survive.
    ///
    /// # Errors
    /// If the connection fails before the whole response has arrived: the app may or may not have acted.
    pub async fn try_checkout(&self, order_no: &str, jwt: &str) -> Result<Response, reqwest::Error> {
        let body = json!({"address": {"name": "Ada", "line1": "1 Mill Lane", "city": "London", "postal_code": "N1 9GU", "country": "GB"}});
        self.http.try_send(Method::POST, &format!("/api/orders/{order_no}/checkout"), jwt, &body).await
    }

    /// Starts the checkout of an order and returns the id of its payment session.
    pub async fn open_session(&self, order_no: &str, jwt: &str) -> String {
        let url = self.checkout(order_no, jwt).await.is(200).text("checkout_url");
        let session = url.rsplit('/').next().unwrap_or_default();
        assert!(!session.is_empty(), "{url}");
        session.to_owned()
    }

    /// Sends what a button of the sandbox's payment page sends; `outcome` is `paid` or `declined`.
    pub async fn submit_payment(&self, session: &str, outcome: &str) -> Response {
        self.http.post(&format!("/sandbox/pay/{session}"), "", &json!({ "outcome": outcome })).await
    }

    /// Opens a payment session for an order, pays it, and returns the paid order.
    pub async fn pay(&self, order_no: &str, jwt: &str) -> Value {
        let session = self.open_session(order_no, jwt).await;
        self.submit_payment(&session, "paid").await.is(200);
        self.wait_for_status(order_no, jwt, "paid").await
    }

    /// Opens a payment session for an order of one unit and pays it without the sandbox's page, which production lacks.
    pub async fn pay_by_callback(&self, order_no: &str, jwt: &str) {
        let session = self.open_session(order_no, jwt).await;
        let body = Self::callback_body("payment.succeeded", order_no, &session);
        self.send_callback(&format!("evt-{order_no}"), &body).await.is(204);
    }

    /// The body of a provider's callback about an order of one unit (1000 minor units, EUR).
    pub fn callback_body(event_type: &str, order_no: &str, session: &str) -> Value {
        let payment = format!("pay_{order_no}");
        let data =
            json!({"order_no": order_no, "session": session, "payment": payment, "amount": 1000, "currency": "EUR"});
        json!({"type": event_type, "timestamp": seconds_from_now(0), "data": data})
    }

    /// Sends a callback with a valid signature and the current time.
    pub async fn send_callback(&self, id: &str, body: &Value) -> Response {
        self.try_send_callback(id, body).await.expect("an answer")
    }

    /// As [`TestApp::send_callback`], for callbacks that the app may not survive.
    ///
    /// # Errors
    /// If the connection fails before the whole response has arrived: the app may or may not have the callback.
    pub async fn try_send_callback(&self, id: &str, body: &Value) -> Result<Response, reqwest::Error> {
        let (now, body) = (OffsetDateTime::now_utc().unix_timestamp(), body.to_string());
        let secrets = self.variables.get("webhook_secrets");
        let secret = secrets.split(' ').next().unwrap_or_default();
        let signature = sign_webhook(secret, id, now, &body);
        self.http.send_with_headers(Method::POST, CALLBACK_PATH, &callback_headers(id, now, &signature), body).await
    }

    /// Sends a callback with any timestamp and signature.
    pub async fn send_callback_with_signature(
        &self,
        id: &str,
        timestamp: i64,
        signature: &str,
        body: &str,
    ) -> Response {
        let headers = callback_headers(id, timestamp, signature);
        self.http.send_with_headers(Method::POST, CALLBACK_PATH, &headers, body.to_owned()).await.expect("an answer")
    }

    /// Counts an activity's orders in the ledger that have `status`.
    pub async fn count_orders_with_status(&self, activity: &TestActivity, status: &str) -> i64 {
        self.count_orders(&activity.id, &format!("status = '{status}'")).await
    }
}

fn callback_headers(id: &str, timestamp: i64, signature: &str) -> [(&'static str, String); 4] {
    [
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", signature.to_owned()),
    ]
}

/// Returns the `webhook-signature` of a [Standard Webhooks](https://www.standardwebhooks.com) message.
pub fn sign_webhook(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    Webhook::new(secret).expect("a secret").sign(id, timestamp, body.as_bytes()).expect("a signature")
}

/// Sends Stripe's signed event that an order of one unit (1000 minor units, EUR) was paid.
pub async fn send_stripe_payment(http: &HttpClient, variables: &Variables, order_no: &str) -> Response {
    let session = json!({"id": "cs_1", "metadata": {"order_no": order_no}, "payment_intent": "pi_1",
        "payment_status": "paid", "amount_total": 1000, "currency": "eur", "status": "complete"});
    let event = json!({"id": "evt_1", "type": "checkout.session.completed", "data": {"object": session}});
    send_stripe_event(http, variables, &event).await
}

/// Sends an event with Stripe's signature.
pub async fn send_stripe_event(http: &HttpClient, variables: &Variables, event: &Value) -> Response {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let mut mac = Hmac::<Sha256>::new_from_slice(variables.get("stripe_secret").as_bytes()).expect("a key");
    mac.update(format!("{now}.{event}").as_bytes());
    let signature = format!("t={now},v1={}", hex::encode(mac.finalize().into_bytes()));
    let headers = [("stripe-signature", signature)];
    let sent = http.send_with_headers(Method::POST, "/api/payments/stripe", &headers, event.to_string());
    sent.await.expect("an answer")
}

/// Starts a payment service whose sessions are paid by nobody, and replaces the sandbox by it. Returns the bodies of the
/// calls.
pub fn use_payment_service(variables: &mut Variables) -> mpsc::Receiver<Value> {
    let (url, received) = answer_calls(|call| match call["type"].as_str() {
        Some("session.close") => r#"{"status":"closed"}"#,
        _ => r#"{"session":"s","url":"https://pay.example/s","refund":"re","status":"pending"}"#,
    });
    variables.set("sandbox", "off");
    variables.set("payment_provider", "webhook");
    variables.set("payments_url", format!("{url}/calls"));
    variables.set("payments_host", url);
    received
}

/// Starts an endpoint that accepts every event, and makes it the shop's. Returns the events.
pub fn use_events_endpoint(variables: &mut Variables) -> mpsc::Receiver<Value> {
    let (url, received) = answer_calls(|_| "{}");
    variables.set("events_secret", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    variables.set("events_url", format!("{url}/events"));
    variables.set("events_host", url);
    received
}

/// Starts a server that answers calls. Returns its URL, and the bodies of the calls.
fn answer_calls(answer: fn(&Value) -> &'static str) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (calls, received) = mpsc::channel();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let calls = calls.clone();
            thread::spawn(move || -> io::Result<()> {
                let mut request = Vec::new();
                let body = loop {
                    let mut chunk = [0; 4_096];
                    let read = connection.read(&mut chunk)?;
                    request.extend_from_slice(&chunk[..read]);
                    if let Some(body) = whole_body(&request) {
                        break serde_json::from_slice(body).unwrap_or_default();
                    }
                };
                let answer = answer(&body);
                calls.send(body).map_err(io::Error::other)?;
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", answer.len());
                connection.write_all(format!("{head}\r\n\r\n{answer}").as_bytes())
            });
        }
    });
    (url, received)
}

/// The body of a request, if all of it is there.
fn whole_body(request: &[u8]) -> Option<&[u8]> {
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length: usize = head.split_once("content-length:")?.1.lines().next()?.trim().parse().ok()?;
    let body = &request[end + 4..];
    (body.len() >= length).then_some(body)
}
