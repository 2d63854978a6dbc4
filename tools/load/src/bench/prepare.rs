//! Prepares measurements: opens an activity, fetches tickets, builds requests, sells out.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use serde_json::Value;

use super::closed_loop::{Measurement, Workload, run_workload};
use super::options::Options;
use super::request_source::{PreparedRequest, RequestSource};
use super::server::Server;
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
    open_activity_with_pay_timeout(app, stock, per_user, 3600).await
}

/// As [`open_activity`], with `pay_timeout` seconds to pay.
pub async fn open_activity_with_pay_timeout(
    app: &App,
    stock: i64,
    per_user: u32,
    pay_timeout: u32,
) -> Result<OpenActivity> {
    let activity = TestActivity::new(1, stock);
    let rules = Rules { start_in: Duration::from_secs(1), pay_timeout, per_user };
    publish(app, &activity, &rules).await?;
    let pollers = GatePollers::start(app, &activity);
    let (_, gate) = wait_until_open(&mut pollers.view.clone(), ADMIN_TIMEOUT).await?;
    let start_key = gate.start_key.context("the gate is open and has no start_key")?;
    Ok(OpenActivity { activity, start_key })
}

/// Fetches a ticket for each user, as a measurement.
pub async fn fetch_tickets(
    server: &Server,
    options: &Options,
    opened: &OpenActivity,
    users: &[HeaderValue],
) -> Result<(Measurement, Vec<String>)> {
    let path = opened.activity.path("/ticket");
    let requests = users
        .iter()
        .map(|user| server.request(Method::POST, &path, Some(user), Bytes::from_static(b"{}")))
        .collect::<Result<Vec<_>>>()?;
    let workload = Workload {
        requests: RequestSource::once(requests),
        expected_status: 201,
        time_limit: None,
        keep_bodies: users.len(),
    };
    let measurement = run_workload(server, options.connections, workload).await?;
    let tickets = measurement
        .bodies
        .iter()
        .map(|(_, body)| Ok(serde_json::from_slice::<TicketResponse>(body)?.ticket))
        .collect::<Result<Vec<_>>>()
        .context("the answer to a ticket request cannot be read as a ticket")?;
    Ok((measurement, tickets))
}

/// Reservations of one unit, one per ticket.
pub fn reservation_requests(
    server: &Server,
    opened: &OpenActivity,
    tickets: &[String],
) -> Result<Vec<PreparedRequest>> {
    tickets
        .iter()
        .map(|ticket| {
            let call = opened.activity.reservation(0, 1, ticket, &opened.start_key);
            server.request(Method::POST, &call.path, None, call.body)
        })
        .collect()
}

/// Order status requests, each with the ticket that made the order.
pub fn status_requests(
    server: &Server,
    tickets: &[String],
    accepted: &[(usize, Bytes)],
) -> Result<Vec<PreparedRequest>> {
    accepted
        .iter()
        .map(|(number, body)| {
            let order: Value = serde_json::from_slice(body)?;
            let order_no = order["order_no"].as_str().context("a 202 without an order_no")?;
            let path = format!("/api/orders/{order_no}");
            server.request(Method::GET, &path, Some(&bearer(&tickets[*number])?), Bytes::new())
        })
        .collect()
}

/// Sells the only unit and checks that the next reservation is refused.
pub async fn sell_out(app: &App, opened: &OpenActivity, tickets: &[String]) -> Result<()> {
    for (ticket, expected) in tickets.iter().zip([202, 409]) {
        let call = opened.activity.reservation(0, 1, ticket, &opened.start_key);
        let response = app.send_with_retry(Step::Reserve, &call, Instant::now() + ADMIN_TIMEOUT).await?;
        ensure!(response.status == expected, "selling the last unit was answered {}, not {expected}", response.label());
    }
    Ok(())
}
