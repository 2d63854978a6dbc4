//! Measures a table: in interleaved rounds each route once, with its floor before and after it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Uri};

use super::{
    calls::Calls,
    context::Bench,
    kind::Kind,
    requests,
    results::Results,
    sale::Sale,
    server::PreparedRequest,
    spawned_app::CpuTimes,
    workload::{Measurement, Workload, run_workload},
};
use crate::http::bearer;

/// Orders to poll the status of, per round.
const STATUS_ORDERS: usize = 1000;
/// Orders to pay, and as many to cancel, per round, at most.
const PAYMENTS: usize = 2000;
/// How much longer than `--seconds` requests may take that are sent once.
const ONCE_TIME: f64 = 3.0;
/// Connections of the measurement at half load, and the part of its rate.
const HALF_LOAD: (u16, f64) = (8, 0.5);
/// One of so many requests that are sent once is kept for it.
const KEPT_FOR_HALF_LOAD: usize = 4;
/// Seconds per measurement and reservations of the round that warms up, at most.
const WARM_UP: (f64, usize) = (0.3, 2_000);
/// The sweeper confirms orders that are older than 3 s.
const SYNCED_AFTER: Duration = Duration::from_secs(4);
/// Longest time until sweeps have nothing left to do.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Warms up, and measures all routes over `connections` connections.
pub async fn measure(bench: &Bench<'_>, sale: &Sale, connections: u16) -> Result<Results> {
    let (seconds, reserves) = (bench.options.seconds, sale.buyers.len());
    let mut results = Results::default();
    let warm_up = (seconds.min(WARM_UP.0), reserves.min(WARM_UP.1));
    Round::new(bench, sale, connections, warm_up, &mut Results::default()).run().await?;
    for _ in 0..bench.options.rounds {
        Round::new(bench, sale, connections, (seconds, reserves), &mut results).run().await?;
        bench.bar.inc(1);
    }
    Ok(results)
}

/// One round: each route once.
struct Round<'a> {
    bench: &'a Bench<'a>,
    sale: &'a Sale,
    connections: u16,
    /// Seconds per measurement.
    seconds: f64,
    /// Reservations, at most.
    reserves: usize,
    results: &'a mut Results,
    /// The floor that was measured last, its connections, and its rate. It serves as the one before the next route.
    last_floor: Option<(Kind, u16, f64)>,
}

impl<'a> Round<'a> {
    fn new(
        bench: &'a Bench<'a>,
        sale: &'a Sale,
        connections: u16,
        (seconds, reserves): (f64, usize),
        results: &'a mut Results,
    ) -> Self {
        Self { bench, sale, connections, seconds, reserves, results, last_floor: None }
    }

    async fn run(mut self) -> Result<()> {
        let (server, in_stock) = (&self.bench.server, &self.sale.in_stock);
        for (kind, path) in
            [(Kind::Activity, in_stock.activity.path("")), (Kind::Gate, in_stock.activity.path("/gate.json"))]
        {
            let request = server.request(Method::GET, &path, None, Bytes::new())?;
            self.compare(kind, self.repeating(vec![request], 200)).await?;
        }
        self.compare(Kind::SoldOut, self.repeating(self.sale.refused.clone(), 409)).await?;

        let users = &self.sale.buyers[..self.reserves];
        let requests = requests::tickets(server, in_stock, users)?;
        let measurement = self.compare(Kind::Ticket, self.once(requests, 201)).await?;
        let tickets = requests::issued_tickets(&measurement)?;
        ensure!(!tickets.is_empty(), "no ticket was issued: {:?}", self.results.unexpected);

        let reservations = requests::reservations(server, in_stock, &tickets)?;
        let reserved = self.compare(Kind::Reserve, self.once(reservations, 202)).await?;
        let orders = requests::accepted_orders(&tickets, &reserved)?;
        ensure!(!orders.is_empty(), "no reservation was accepted: {:?}", self.results.unexpected);
        let again = requests::reservations(server, in_stock, orders.iter().map(|order| &order.ticket))?;
        self.compare(Kind::ReserveAgain, self.repeating(again, 202)).await?;

        let polls = requests::polls(server, &orders[..orders.len().min(STATUS_ORDERS)])?;
        self.compare(Kind::Status, self.repeating(polls, 200)).await?;
        let list = |user| server.request(Method::GET, "/api/orders", Some(user), Bytes::new());
        let lists = users.iter().map(list).collect::<Result<Vec<_>>>()?;
        self.compare(Kind::MyOrders, self.repeating(lists, 200)).await?;

        if let Some(secret) = &self.bench.target.webhook_secret {
            let (pay, cancel) = orders.split_at(orders.len() / 2);
            let (pay, cancel) = (&pay[..pay.len().min(PAYMENTS)], &cancel[..cancel.len().min(PAYMENTS)]);
            let requests = requests::checkouts(server, pay, &self.sale.buyers)?;
            let checked_out = self.compare(Kind::Checkout, self.once(requests, 200)).await?;
            let requests = requests::callbacks(server, secret, pay, &checked_out.bodies)?;
            self.compare(Kind::Callback, self.once(requests, 204)).await?;
            let requests = requests::cancellations(server, cancel, &self.sale.buyers)?;
            self.compare(Kind::Cancel, self.once(requests, 200)).await?;
        }
        if self.bench.options.growth.is_some() {
            self.operate().await?;
        }
        Ok(())
    }

    /// Measures what operators and cron jobs ask for, after everything was swept.
    async fn operate(&mut self) -> Result<()> {
        self.sweep_until_idle().await?;
        let (target, activity) = (&self.bench.target, &self.sale.in_stock.activity);
        let admin = bearer(&target.admin_token)?;
        let cron = bearer(target.cron_token.as_deref().context("a cron token")?)?;
        for (kind, method, path, token) in [
            (Kind::Stats, Method::GET, activity.admin_path("/stats"), &admin),
            (Kind::Audit, Method::GET, activity.admin_path("/audit"), &admin),
            (Kind::Sweep, Method::POST, "/api/tasks/sweep".to_owned(), &cron),
        ] {
            let request = self.bench.server.request(method, &path, Some(token), Bytes::new())?;
            self.compare(kind, self.repeating(vec![request], 200)).await?;
        }
        Ok(())
    }

    /// Sweeps until Redis has confirmed every order: cron would have done so while they were written.
    async fn sweep_until_idle(&self) -> Result<()> {
        tokio::time::sleep(SYNCED_AFTER).await;
        let deadline = Instant::now() + SWEEP_TIMEOUT;
        while Instant::now() < deadline {
            let report = self.bench.app.sweep_report().await.context("a sweep failed")?;
            if report["remaining"]["unsynced"] == 0 {
                return Ok(());
            }
        }
        bail!("orders wait to be confirmed after {} s of sweeps", SWEEP_TIMEOUT.as_secs())
    }

    fn repeating(&self, requests: Vec<PreparedRequest>, expected_status: u16) -> Workload {
        Workload::repeating(requests, expected_status, Duration::from_secs_f64(self.seconds))
    }

    fn once(&self, requests: Vec<PreparedRequest>, expected_status: u16) -> Workload {
        let kept = if self.bench.measures_half_load() { requests.len() / KEPT_FOR_HALF_LOAD } else { 0 };
        let max_requests = requests.len() - kept;
        let mut workload = Workload::once(requests, expected_status);
        workload.max_requests = max_requests;
        workload.time_limit = Some(Duration::from_secs_f64(self.seconds * ONCE_TIME));
        workload
    }

    /// Measures `kind` with its floor before and after it, and records the ratio to the mean of the two.
    async fn compare(&mut self, kind: Kind, workload: Workload) -> Result<Measurement> {
        let connections = if kind.is_operators() { 1 } else { self.connections };
        let before = match (self.last_floor, kind.floor()) {
            (Some((last, over, rate)), Some(floor)) if (last, over) == (floor, connections) => Some(rate),
            (_, floor) => self.measure_floor(floor, connections).await?,
        };
        let measurement = self.measure(kind, connections, workload).await?;
        let after = self.measure_floor(kind.floor(), connections).await?;
        self.last_floor = kind.floor().zip(after).map(|(floor, rate)| (floor, connections, rate));
        if let (Some(before), Some(after)) = (before, after) {
            self.results.add_ratio(kind, measurement.per_second() / ((before + after) / 2.0));
        }
        Ok(measurement)
    }

    /// The rate of `floor`; `None` if there is none to measure.
    async fn measure_floor(&mut self, floor: Option<Kind>, connections: u16) -> Result<Option<f64>> {
        let (Some(kind), Some(_)) = (floor, &self.bench.floors) else { return Ok(None) };
        let workload = self.repeating(vec![self.floor_request(kind)?], 200);
        Ok(Some(self.measure(kind, connections, workload).await?.per_second()))
    }

    fn floor_request(&self, kind: Kind) -> Result<PreparedRequest> {
        let path = kind.floor_path().unwrap_or_default();
        if kind == Kind::Hello {
            return self.bench.server.request(Method::GET, path, None, Bytes::new());
        }
        let mut reservation = self.sale.refused[0].clone();
        *reservation.uri_mut() = Uri::from_static(path);
        Ok(reservation)
    }

    /// Measures `kind` and waits until the order writer is done: its work would disturb the next measurement.
    async fn measure(&mut self, kind: Kind, connections: u16, mut workload: Workload) -> Result<Measurement> {
        let bench = self.bench;
        bench.bar.set_message(kind.name());
        let server = bench.floors.as_ref().filter(|_| kind.floor_path().is_some()).unwrap_or(&bench.server);
        let cpu_times = || bench.spawned_app.and_then(|app| app.cpu_times(kind.floor_path().is_some()));
        let calls = Calls::read(server).await?;
        let before = cpu_times();
        let measurement = run_workload(server, connections, workload.clone()).await?;
        let mut after = cpu_times();
        if let (Some(before), Some(after)) = (calls, Calls::read(server).await?) {
            let requests = measurement.succeeded + measurement.unexpected.values().sum::<u64>();
            self.results.add_calls(kind, before, after, requests);
        }
        if kind == Kind::Reserve {
            bench.wait_until_drained(&self.sale.in_stock).await?;
            // The writer's work for these orders counts, also in Redis; the engine's for the polls meanwhile does not.
            after = after.zip(cpu_times()).map(|(after, drained)| CpuTimes {
                machine: after.machine,
                engine: after.engine,
                ..drained
            });
        }
        self.results.add(kind, &measurement, before.zip(after));
        if kind.floor_path().is_none() && !kind.is_operators() && bench.measures_half_load() {
            workload.max_requests = usize::MAX;
            let interval = f64::from(HALF_LOAD.0) / (measurement.per_second() * HALF_LOAD.1).max(1.0);
            workload.interval = Duration::from_secs_f64(interval);
            let before = cpu_times();
            let measurement = run_workload(server, HALF_LOAD.0, workload).await?;
            let engine = before.zip(cpu_times()).map(|(before, after)| after.engine.saturating_sub(before.engine));
            self.results.add_at_half_load(kind, &measurement, engine);
            if kind == Kind::Reserve {
                bench.wait_until_drained(&self.sale.in_stock).await?;
            }
        }
        Ok(measurement)
    }
}
