//! Requests of the buyers who pay or cancel, and of the payment provider.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use standardwebhooks::Webhook;
use time::OffsetDateTime;

use super::prepare::Ticket;
use super::request_source::PreparedRequest;
use super::server::Server;

/// An order that was accepted.
#[derive(Debug, Clone)]
pub struct AcceptedOrder {
    pub order_no: String,
    amount: i64,
    currency: String,
    /// The ticket that made it.
    pub ticket: Ticket,
}

/// The fields of a `202` that are used here.
#[derive(Deserialize)]
struct Accepted {
    order_no: String,
    #[serde(default)]
    amount: i64,
    #[serde(default)]
    currency: String,
}

impl AcceptedOrder {
    /// Parses the body of a `202`.
    pub fn parse(body: &Bytes, ticket: &Ticket) -> Result<Self> {
        let Accepted { order_no, amount, currency } =
            serde_json::from_slice(body).context("a 202 that cannot be read as an order")?;
        Ok(Self { order_no, amount, currency, ticket: ticket.clone() })
    }
}

/// Checkouts, one per order.
pub fn checkout_requests(
    server: &Server,
    orders: &[AcceptedOrder],
    user_tokens: &[HeaderValue],
) -> Result<Vec<PreparedRequest>> {
    let address = json!({"name": "Ada Lovelace", "line1": "12 St James's Square", "city": "London",
                         "postal_code": "SW1Y 4JH", "country": "GB"});
    let body = Bytes::from(json!({"address": address}).to_string());
    let request = |order: &AcceptedOrder| {
        let path = format!("/api/orders/{}/checkout", order.order_no);
        server.request(Method::POST, &path, Some(&user_tokens[order.ticket.user]), body.clone())
    };
    orders.iter().map(request).collect()
}

/// Cancellations, one per order.
pub fn cancel_requests(
    server: &Server,
    orders: &[AcceptedOrder],
    user_tokens: &[HeaderValue],
) -> Result<Vec<PreparedRequest>> {
    let request = |order: &AcceptedOrder| {
        let path = format!("/api/orders/{}/cancel", order.order_no);
        server.request(Method::POST, &path, Some(&user_tokens[order.ticket.user]), Bytes::new())
    };
    orders.iter().map(request).collect()
}

/// The callbacks of a provider that was paid for each of the `checked_out` orders, by the responses of their checkouts.
pub fn callback_requests(
    server: &Server,
    secret: &str,
    orders: &[AcceptedOrder],
    checked_out: &[(usize, Bytes)],
) -> Result<Vec<PreparedRequest>> {
    let webhook = Webhook::new(secret).context("webhook_secrets has no usable secret")?;
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let request = |(number, _): &(usize, Bytes)| {
        let order = &orders[*number];
        let id = format!("evt_{}", order.order_no);
        let body = json!({"type": "payment.succeeded", "timestamp": now, "data": {
            "order_no": order.order_no, "session": order.order_no, "payment": format!("pay_{}", order.order_no),
            "amount": order.amount, "currency": order.currency}})
        .to_string();
        let signature = webhook.sign(&id, now, body.as_bytes())?;
        let mut request = server.request(Method::POST, "/api/payments/webhook", None, Bytes::from(body))?;
        for (name, value) in [("id", id), ("timestamp", now.to_string()), ("signature", signature)] {
            let name = HeaderName::try_from(format!("webhook-{name}"))?;
            request.headers_mut().insert(name, HeaderValue::try_from(value)?);
        }
        Ok(request)
    };
    checked_out.iter().map(request).collect()
}
