//! Runs the rounds: the floor of each route before and after it, under the same conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, Uri};
use indicatif::ProgressBar;

use super::drain::{self, Drain};
use super::kind::Kind;
use super::options::Options;
use super::payments::{callback_requests, cancel_requests, checkout_requests};
use super::prepare::{self, OpenActivity, Ticket};
use super::request_source::PreparedRequest;
use super::results::Results;
use super::server::Server;
use super::spawned_app::{CpuTimes, SpawnedApp};
use super::workload::{Measurement, Workload, run_workload};
use crate::app::App;

/// Orders to poll the status of, per round.
const STATUS_ORDERS: usize = 1000;
/// Orders to pay, and as many to cancel, per round, at most.
const PAYMENTS: usize = 2000;
/// How much longer than `--seconds` requests may take that are sent once.
const ONCE_TIME: f64 = 3.0;

pub struct Bench<'a> {
    pub options: Options,
    pub spawned_app: Option<&'a SpawnedApp>,
    /// Client for requests that are not measured.
    pub app: App,
    /// Server for requests that are measured.
    pub server: Server,
    /// The floors; `None` if there are none to compare with.
    pub floors: Option<Server>,
    /// An activity with stock for all reservations.
    pub in_stock: OpenActivity,
    pub sold_out: OpenActivity,
    /// `Bearer <JWT>` of each user.
    pub user_tokens: Vec<HeaderValue>,
    pub sold_out_requests: Vec<PreparedRequest>,
}

/// One round: each route once.
struct Round<'a> {
    bench: &'a Bench<'a>,
    connections: u16,
    /// Seconds per measurement.
    seconds: f64,
    /// Reservations, at most.
    reserves: usize,
    results: &'a mut Results,
    bar: &'a ProgressBar,
    /// The floor that was measured last, and its rate. It serves as the one before the next route.
    last_floor: Option<(Kind, f64)>,
}

impl Round<'_> {
    async fn run(mut self) -> Result<()> {
        let bench = self.bench;
        let (server, in_stock) = (&bench.server, &bench.in_stock);
        for (kind, path) in
            [(Kind::Activity, in_stock.activity.path("")), (Kind::Gate, in_stock.activity.path("/gate.json"))]
        {
            let request = server.request(Method::GET, &path, None, Bytes::new())?;
            self.compare(kind, self.repeating(vec![request], 200)).await?;
        }
        self.compare(Kind::SoldOut, self.repeating(bench.sold_out_requests.clone(), 409)).await?;

        let users = &bench.user_tokens[..self.reserves];
        let requests = prepare::ticket_requests(server, in_stock, users)?;
        let measurement = self.compare(Kind::Ticket, self.once(requests, 201)).await?;
        let tickets = prepare::issued_tickets(&measurement)?;
        ensure!(!tickets.is_empty(), "no ticket was issued: {:?}", self.results.unexpected);

        let reservations = prepare::reservation_requests(server, in_stock, &tickets)?;
        let reserved = self.compare(Kind::Reserve, self.once(reservations, 202)).await?;
        let orders = prepare::accepted_orders(&tickets, &reserved)?;
        ensure!(!orders.is_empty(), "no reservation was accepted: {:?}", self.results.unexpected);
        let used: Vec<Ticket> = orders.iter().map(|order| order.ticket.clone()).collect();
        let again = prepare::reservation_requests(server, in_stock, &used)?;
        self.compare(Kind::ReserveAgain, self.repeating(again, 202)).await?;

        let polls = prepare::status_requests(server, &orders[..orders.len().min(STATUS_ORDERS)])?;
        self.compare(Kind::Status, self.repeating(polls, 200)).await?;
        let list = |user| server.request(Method::GET, "/api/orders", Some(user), Bytes::new());
        let lists = users.iter().map(list).collect::<Result<Vec<_>>>()?;
        self.compare(Kind::MyOrders, self.repeating(lists, 200)).await?;

        if let Some(secret) = &bench.options.target.webhook_secret {
            let (pay, cancel) = orders.split_at(orders.len() / 2);
            let (pay, cancel) = (&pay[..pay.len().min(PAYMENTS)], &cancel[..cancel.len().min(PAYMENTS)]);
            let requests = checkout_requests(server, pay, &bench.user_tokens)?;
            let checked_out = self.compare(Kind::Checkout, self.once(requests, 200)).await?;
            let requests = callback_requests(server, secret, pay, &checked_out.bodies)?;
            self.compare(Kind::Callback, self.once(requests, 204)).await?;
            let requests = cancel_requests(server, cancel, &bench.user_tokens)?;
            self.compare(Kind::Cancel, self.once(requests, 200)).await?;
        }
        Ok(())
    }

    fn repeating(&self, requests: Vec<PreparedRequest>, expected_status: u16) -> Workload {
        Workload::repeating(requests, expected_status, Duration::from_secs_f64(self.seconds))
    }

    fn once(&self, requests: Vec<PreparedRequest>, expected_status: u16) -> Workload {
        let time_limit = Some(Duration::from_secs_f64(self.seconds * ONCE_TIME));
        Workload { time_limit, ..Workload::once(requests, expected_status) }
    }

    /// Measures `kind` with its floor before and after it, and records the ratio to the mean of the two.
    async fn compare(&mut self, kind: Kind, workload: Workload) -> Result<Measurement> {
        let before = match (self.last_floor, kind.floor()) {
            (Some((last, rate)), Some(floor)) if last == floor => Some(rate),
            (_, floor) => self.measure_floor(floor).await?,
        };
        let measurement = self.measure(kind, workload).await?;
        let after = self.measure_floor(kind.floor()).await?;
        self.last_floor = kind.floor().zip(after);
        if let (Some(before), Some(after)) = (before, after) {
            self.results.add_ratio(kind, measurement.per_second() / ((before + after) / 2.0));
        }
        Ok(measurement)
    }

    /// The rate of `floor`; `None` if there is none to measure.
    async fn measure_floor(&mut self, floor: Option<Kind>) -> Result<Option<f64>> {
        let (Some(kind), Some(_)) = (floor, &self.bench.floors) else { return Ok(None) };
        let workload = self.repeating(vec![self.floor_request(kind)?], 200);
        Ok(Some(self.measure(kind, workload).await?.per_second()))
    }

    fn floor_request(&self, kind: Kind) -> Result<PreparedRequest> {
        let path = kind.floor_path().unwrap_or_default();
        if kind == Kind::Hello {
            return self.bench.server.request(Method::GET, path, None, Bytes::new());
        }
        let mut reservation = self.bench.sold_out_requests[0].clone();
        *reservation.uri_mut() = Uri::from_static(path);
        Ok(reservation)
    }

    /// Measures `kind` and waits until the order writer is done: its work would disturb the next measurement.
    async fn measure(&mut self, kind: Kind, workload: Workload) -> Result<Measurement> {
        let bench = self.bench;
        self.bar.set_message(kind.name());
        let server = bench.floors.as_ref().filter(|_| kind.floor_path().is_some()).unwrap_or(&bench.server);
        let cpu_times = || bench.spawned_app.and_then(|app| app.cpu_times(kind.floor_path().is_some()));
        let before = cpu_times();
        let measurement = run_workload(server, self.connections, workload).await?;
        let mut after = cpu_times();
        if kind == Kind::Reserve && measurement.succeeded > 0 {
            let drain = bench.wait_for_writer(&measurement).await?;
            self.results.drains.push(drain);
            // The writer's work for these orders counts, also in Redis; the engine's for the polls meanwhile does not.
            after = after.zip(cpu_times()).map(|(after, drained)| CpuTimes {
                machine: after.machine,
                engine: after.engine,
                ..drained
            });
        }
        self.results.add(kind, &measurement, before.zip(after));
        Ok(measurement)
    }
}

impl Bench<'_> {
    /// Runs one round: each route once, with its floor before and after it.
    pub async fn run_round(
        &self,
        connections: u16,
        (seconds, reserves): (f64, usize),
        results: &mut Results,
        bar: &ProgressBar,
    ) -> Result<()> {
        Round { bench: self, connections, seconds, reserves, results, bar, last_floor: None }.run().await
    }

    /// Pauses the order writer while reservations fill the queue, and measures how fast the writer drains it. Adds
    /// unexpected responses to `unexpected`.
    pub async fn measure_drain_after_pause(
        &self,
        spawned_app: &SpawnedApp,
        unexpected: &mut BTreeMap<String, u64>,
    ) -> Result<Option<Drain>> {
        let connections = self.options.most_connections();
        let tickets = prepare::fetch_tickets(&self.server, connections, &self.in_stock, &self.user_tokens).await?;
        let requests = prepare::reservation_requests(&self.server, &self.in_stock, &tickets)?;
        spawned_app.pause_writer(true)?;
        let reservations = run_workload(&self.server, connections, Workload::once(requests, 202)).await;
        spawned_app.pause_writer(false)?;
        let reservations = reservations?;
        for (what, count) in &reservations.unexpected {
            *unexpected.entry(format!("reserve, writer paused: {what}")).or_default() += count;
        }
        match reservations.succeeded {
            0 => Ok(None),
            _ => Ok(Some(self.wait_for_writer(&reservations).await?)),
        }
    }

    async fn wait_for_writer(&self, reservations: &Measurement) -> Result<Drain> {
        drain::wait_until_drained(&self.app, &self.in_stock.activity, reservations).await
    }
}
