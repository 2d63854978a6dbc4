//! What must exist before a measurement: two open sales, signed-in users, tickets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use serde_json::{Value, json};

use super::closed_loop::{Sample, Work, drive};
use super::options::Options;
use super::server::Server;
use super::supply::{Prepared, Supply};
use crate::app::App;
use crate::http::{Call, bearer};
use crate::meter::Step;
use crate::simulation::gate::{Pollers, opening};
use crate::simulation::setup::{ADMIN_PATIENCE, Rules, Terms, publish};
use crate::wire::Ticket;

/// An open sale.
pub struct OpenSale {
    /// Its activity.
    pub terms: Terms,
    /// Its start key.
    pub start_key: String,
}

/// Creates a sale of `stock` units that opens in a second, and waits until it has.
pub async fn open_sale(app: &App, stock: i64, per_user: u32) -> Result<OpenSale> {
    open_sale_to_be_paid_in(app, stock, per_user, 3600).await
}

/// The same with so many seconds to pay.
pub async fn open_sale_to_be_paid_in(app: &App, stock: i64, per_user: u32, pay_timeout: u32) -> Result<OpenSale> {
    let terms = Terms::new(1, stock);
    let rules = Rules { start_in: Duration::from_secs(1), pay_timeout, per_user };
    publish(app, &terms, &rules).await?;
    let pollers = Pollers::start(app, &terms);
    let (_, gate) = opening(&mut pollers.view.clone(), ADMIN_PATIENCE).await?;
    let start_key = gate.start_key.context("the gate is open and has no start_key")?;
    Ok(OpenSale { terms, start_key })
}

/// Gets a ticket for each user, measured.
pub async fn tickets(
    server: &Server,
    options: &Options,
    sale: &OpenSale,
    users: &[HeaderValue],
) -> Result<(Sample, Vec<String>)> {
    let path = sale.terms.path("/ticket");
    let requests = users
        .iter()
        .map(|user| server.request(Method::POST, &path, Some(user), Bytes::from_static(b"{}")))
        .collect::<Result<Vec<_>>>()?;
    let work = Work { supply: Supply::once(requests), expect: 201, limit: None, keep: users.len() };
    let sample = drive(server, options.connections, work).await?;
    let tickets = sample
        .kept
        .iter()
        .map(|(_, body)| Ok(serde_json::from_slice::<Ticket>(body)?.ticket))
        .collect::<Result<Vec<_>>>()
        .context("the answer to a ticket request is not the one that the contract promises")?;
    Ok((sample, tickets))
}

/// Reservations of one unit, one per ticket.
pub fn reservations(server: &Server, sale: &OpenSale, tickets: &[String]) -> Result<Vec<Prepared>> {
    let path = sale.terms.path("/orders");
    tickets
        .iter()
        .map(|ticket| {
            let body = json!({"sku": sale.terms.skus[0], "quantity": 1, "ticket": ticket, "start_key": sale.start_key});
            server.request(Method::POST, &path, None, Bytes::from(body.to_string()))
        })
        .collect()
}

/// Looks at orders with the tickets that made them.
pub fn looks(server: &Server, tickets: &[String], accepted: &[(usize, Bytes)]) -> Result<Vec<Prepared>> {
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

/// Sells the only unit of `sale` and makes sure that the next buyer is refused.
pub async fn sell_out(app: &App, sale: &OpenSale, tickets: &[String]) -> Result<()> {
    for (ticket, expected) in tickets.iter().zip([202, 409]) {
        let body = json!({"sku": sale.terms.skus[0], "quantity": 1, "ticket": ticket, "start_key": sale.start_key});
        let call = Call::post(sale.terms.path("/orders"), &body);
        let answer = app.insist(Step::Reserve, &call, Instant::now() + ADMIN_PATIENCE).await?;
        ensure!(answer.status == expected, "selling the last unit was answered {}, not {expected}", answer.label());
    }
    Ok(())
}
