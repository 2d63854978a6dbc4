//! Prepares measurements: opens an activity, fetches tickets, builds requests, sells out.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;

use super::payments::AcceptedOrder;
use super::request_source::PreparedRequest;
use super::server::Server;
use super::workload::{Measurement, Workload, run_workload};
use crate::app::App;
use crate::http::bearer;
use crate::meter::Step;
use crate::simulation::gate::{GatePollers, wait_until_open};
use crate::simulation::setup::{ADMIN_TIMEOUT, Rules, TestActivity, publish};
use crate::wire::TicketResponse;

pub struct OpenActivity {
    pub activity: TestActivity,
    pub start_key: String,
}

/// Creates an activity with `stock` units and an hour to pay that opens in a second, and waits until it is open.
pub async fn open_activity(app: &App, stock: i64, per_user: u32) -> Result<OpenActivity> {
    let activity = TestActivity::new(1, stock);
    let rules = Rules { start_in: Duration::from_secs(1), pay_timeout: 3600, per_user };
    publish(app, &activity, &rules).await?;
    let pollers = GatePollers::start(app, &activity);
    let (_, gate) = wait_until_open(&mut pollers.view.clone(), ADMIN_TIMEOUT).await?;
    let start_key = gate.start_key.context("the gate is open and has no start_key")?;
    Ok(OpenActivity { activity, start_key })
}

/// A ticket, and the index of its user.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub user: usize,
    pub text: String,
}

/// Requests for a ticket, one per user.
pub fn ticket_requests(server: &Server, opened: &OpenActivity, users: &[HeaderValue]) -> Result<Vec<PreparedRequest>> {
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

/// Fetches a ticket for each user, over `connections` connections.
pub async fn fetch_tickets(
    server: &Server,
    connections: u16,
    opened: &OpenActivity,
    users: &[HeaderValue],
) -> Result<Vec<Ticket>> {
    let workload = Workload::once(ticket_requests(server, opened, users)?, 201);
    let measurement = run_workload(server, connections, workload).await?;
    ensure!(measurement.unexpected.is_empty(), "a ticket was not issued: {:?}", measurement.unexpected);
    issued_tickets(&measurement)
}

/// Reservations of one unit, one per ticket.
pub fn reservation_requests(
    server: &Server,
    opened: &OpenActivity,
    tickets: &[Ticket],
) -> Result<Vec<PreparedRequest>> {
    tickets
        .iter()
        .map(|ticket| {
            let call = opened.activity.reservation(0, 1, &ticket.text, &opened.start_key);
            server.request(Method::POST, &call.path, None, call.body)
        })
        .collect()
}

/// The orders that `reservations` made with `tickets`.
pub fn accepted_orders(tickets: &[Ticket], reservations: &Measurement) -> Result<Vec<AcceptedOrder>> {
    reservations.bodies.iter().map(|(number, body)| AcceptedOrder::parse(body, &tickets[*number])).collect()
}

/// Order status requests, each with the ticket that made the order.
pub fn status_requests(server: &Server, orders: &[AcceptedOrder]) -> Result<Vec<PreparedRequest>> {
    let request = |order: &AcceptedOrder| {
        let path = format!("/api/orders/{}", order.order_no);
        server.request(Method::GET, &path, Some(&bearer(&order.ticket.text)?), Bytes::new())
    };
    orders.iter().map(request).collect()
}

/// Sells the only unit and checks that the next reservation is refused.
pub async fn sell_out(app: &App, opened: &OpenActivity, tickets: &[Ticket]) -> Result<()> {
    for (ticket, expected) in tickets.iter().zip([202, 409]) {
        let call = opened.activity.reservation(0, 1, &ticket.text, &opened.start_key);
        let response = app.send_with_retry(Step::Reserve, &call, Instant::now() + ADMIN_TIMEOUT).await?;
        ensure!(response.status == expected, "selling the last unit was answered {}, not {expected}", response.label());
    }
    Ok(())
}
