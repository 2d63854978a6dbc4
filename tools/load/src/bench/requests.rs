//! Builds the requests of a measurement before its clock starts.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{
    Method,
    header::{HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::json;
use standardwebhooks::Webhook;
use time::OffsetDateTime;

use super::{
    server::{PreparedRequest, Server},
    workload::Measurement,
};
use crate::{
    http::bearer,
    simulation::setup::TestActivity,
    wire::{TicketResponse, checkout_body},
};

pub struct OpenActivity {
    pub activity: TestActivity,
    pub start_key: String,
}

/// A ticket, and the index of its user.
#[derive(Debug, Clone, Default)]
pub struct Ticket {
    pub user: usize,
    pub text: String,
}

/// An order that was accepted.
#[derive(Debug, Clone, Deserialize)]
pub struct AcceptedOrder {
    pub order_no: String,
    #[serde(default)]
    amount: i64,
    #[serde(default)]
    currency: String,
    /// The ticket that made it.
    #[serde(skip)]
    pub ticket: Ticket,
}

/// Requests for a ticket, one per user.
pub fn tickets(server: &Server, opened: &OpenActivity, users: &[HeaderValue]) -> Result<Vec<PreparedRequest>> {
    let path = opened.activity.path("/ticket");
    users.iter().map(|user| server.request(Method::POST, &path, Some(user), Bytes::from_static(b"{}"))).collect()
}

/// The tickets that were issued, in the order of the users.
pub fn issued_tickets(measurement: &Measurement) -> Result<Vec<Ticket>> {
    let parse = |(user, body): &(usize, Bytes)| {
        let text = serde_json::from_slice::<TicketResponse>(body)?.ticket;
        Ok(Ticket { user: *user, text })
    };
    let tickets: Result<Vec<_>> = measurement.bodies.iter().map(parse).collect();
    let mut tickets = tickets.context("the answer to a ticket request cannot be read as a ticket")?;
    tickets.sort_by_key(|ticket| ticket.user);
    Ok(tickets)
}

/// Reservations of one unit, one per ticket.
pub fn reservations<'a>(
    server: &Server,
    opened: &OpenActivity,
    tickets: impl IntoIterator<Item = &'a Ticket>,
) -> Result<Vec<PreparedRequest>> {
    let request = |ticket: &Ticket| {
        let call = opened.activity.reservation(0, 1, &ticket.text, &opened.start_key);
        server.request(Method::POST, &call.path, None, call.body)
    };
    tickets.into_iter().map(request).collect()
}

/// The orders that `reservations` made with `tickets`.
pub fn accepted_orders(tickets: &[Ticket], reservations: &Measurement) -> Result<Vec<AcceptedOrder>> {
    let parse = |(number, body): &(usize, Bytes)| {
        let order = serde_json::from_slice(body).context("a 202 that cannot be read as an order")?;
        Ok(AcceptedOrder { ticket: tickets[*number].clone(), ..order })
    };
    reservations.bodies.iter().map(parse).collect()
}

/// Order status requests, each with the ticket that made the order.
pub fn polls(server: &Server, orders: &[AcceptedOrder]) -> Result<Vec<PreparedRequest>> {
    let request = |order: &AcceptedOrder| {
        let path = format!("/api/orders/{}", order.order_no);
        server.request(Method::GET, &path, Some(&bearer(&order.ticket.text)?), Bytes::new())
    };
    orders.iter().map(request).collect()
}

/// Checkouts, one per order.
pub fn checkouts(server: &Server, orders: &[AcceptedOrder], users: &[HeaderValue]) -> Result<Vec<PreparedRequest>> {
    posts(server, orders, users, "checkout", &Bytes::from(checkout_body().to_string()))
}

/// Cancellations, one per order.
pub fn cancellations(server: &Server, orders: &[AcceptedOrder], users: &[HeaderValue]) -> Result<Vec<PreparedRequest>> {
    posts(server, orders, users, "cancel", &Bytes::new())
}

fn posts(
    server: &Server,
    orders: &[AcceptedOrder],
    users: &[HeaderValue],
    route: &str,
    body: &Bytes,
) -> Result<Vec<PreparedRequest>> {
    let request = |order: &AcceptedOrder| {
        let path = format!("/api/orders/{}/{route}", order.order_no);
        server.request(Method::POST, &path, Some(&users[order.ticket.user]), body.clone())
    };
    orders.iter().map(request).collect()
}

/// The callbacks of a provider that was paid for each of the `checked_out` orders, by the responses of their checkouts.
pub fn callbacks(
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
