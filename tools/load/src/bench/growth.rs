//! Measures how the cost of requests, in hello worlds, changes as orders, activities, connections or app processes grow.
//!
//! Each point of a dimension has a sale of its own. Every measurement has hello world before and after it, at the same
//! connections and app processes.

pub mod fill;
pub mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use dev::app::App as AppProcess;
use http::Method;
use http::header::HeaderValue;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use workflows::recovery::turns::SETTLE_AFTER_MS;

use self::report::{Growth, Point, Route};
use super::drain;
use super::options::Options;
use super::prepare::{accepted_orders, fetch_tickets, open_activity, reservation_requests, status_requests};
use super::request_source::PreparedRequest;
use super::server::Server;
use super::spawned_app::SpawnedApp;
use super::workload::{Measurement, Workload, run_workload};
use crate::app::App;
use crate::http::bearer;
use crate::simulation::setup::{Rules, TestActivity, publish};
use crate::simulation::{buyers, setup};
use crate::statistics::median;
use crate::target::Target;

/// Accepted reservations in each round, at least. Few, because they add to the orders of the sale.
const RESERVES: usize = 1_000;
/// Accepted reservations of each connection in each round, at least: the first waits until its connection is open.
const RESERVES_PER_CONNECTION: usize = 16;
/// Buyers whose reservations are refused as sold out.
const REFUSED_BUYERS: usize = 1_000;
/// Connections of the operator's requests: pages and cron jobs ask one after the other.
const OPERATOR_CONNECTIONS: u16 = 1;

/// Longest time until sweeps have nothing left to do.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(120);

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Orders in the sale.
    Orders,
    /// Open activities.
    Activities,
    /// Connections.
    Connections,
    /// App processes on the same stores.
    Processes,
}

impl Dimension {
    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orders => "orders in the sale",
            Self::Activities => "open activities",
            Self::Connections => "connections",
            Self::Processes => "app processes",
        }
    }

    /// The sizes to measure, smallest first.
    fn sizes(self, options: &Options) -> Vec<usize> {
        let up_to = |sizes: &[usize], max: usize| {
            let below = sizes.iter().copied().filter(|size| *size < max);
            below.chain([max]).collect()
        };
        match self {
            Self::Orders => up_to(&[0, 10_000, 100_000], options.growth_orders),
            Self::Activities => up_to(&[1, 10, 100], options.growth_activities.max(1)),
            Self::Connections => vec![16, 64, 256, 512],
            Self::Processes => vec![1, 2, 4],
        }
    }
}

struct GrowthBench<'a> {
    options: &'a Options,
    spawned_app: &'a SpawnedApp,
    target: Target,
    app: App,
    server: Server,
    bar: ProgressBar,
    /// App processes beside the first.
    other_processes: Vec<AppProcess>,
    /// Open activities beside the measured sale.
    other_activities: Vec<TestActivity>,
}

/// Measures the dimensions that `options` name, one after the other.
pub async fn run(options: &Options, spawned_app: &SpawnedApp) -> Result<Growth> {
    let target = options.target.resolve()?;
    let app = App::new(&target, options.most_connections(), Duration::from_secs(10))?;
    setup::check_reachable(&app, &target.url).await?;
    let (server, bar) = (Server::new(&target.url)?, ProgressBar::new(0));
    bar.set_style(ProgressStyle::with_template("{wide_msg} {pos}/{len} {elapsed}")?);
    let mut bench = GrowthBench {
        options,
        spawned_app,
        target,
        app,
        server,
        bar,
        other_processes: Vec::new(),
        other_activities: Vec::new(),
    };
    let requested = options.growth.clone().unwrap_or_default();
    let all = [Dimension::Connections, Dimension::Activities, Dimension::Processes, Dimension::Orders];
    let mut growth = Growth::default();
    // The largest sale comes last: its rows stay in the ledger.
    for dimension in all.into_iter().filter(|dimension| requested.is_empty() || requested.contains(dimension)) {
        for size in dimension.sizes(options) {
            let point = bench.measure_point(dimension, size).await?;
            bench.bar.suspend(|| eprintln!("{}", point.line()));
            growth.points.push(point);
        }
        bench.reset().await?;
    }
    bench.bar.finish_and_clear();
    Ok(growth)
}

impl GrowthBench<'_> {
    async fn measure_point(&mut self, dimension: Dimension, size: usize) -> Result<Point> {
        let mut connections = self.options.most_connections();
        let mut orders = 0;
        match dimension {
            Dimension::Orders => orders = size,
            Dimension::Connections => connections = u16::try_from(size)?,
            Dimension::Activities => self.open_activities(size - 1).await?,
            Dimension::Processes => self.start_processes(size)?,
        }
        let mut point = Point::new(dimension, size);
        let (rounds, reserves) =
            (self.options.rounds as usize, RESERVES.max(RESERVES_PER_CONNECTION * usize::from(connections)));
        let units = orders + rounds * reserves;
        self.show(dimension, size, "opening a sale");
        let opened = open_activity(&self.app, i64::try_from(units)?, u32::try_from(rounds)?).await?;

        self.show(dimension, size, "adding orders");
        self.bar.set_length(orders as u64);
        self.bar.set_position(0);
        fill::add_orders(&self.spawned_app.redis_url(), &opened, orders, &self.bar).await?;
        self.bar.set_length(0);

        let count = reserves.max(REFUSED_BUYERS) + reserves;
        let users = buyers::sign_in(&self.app, &self.target, &opened.activity, count, &ProgressBar::hidden()).await?;
        let hello = vec![self.server.request(Method::GET, &self.options.hello_path, None, Bytes::new())?];
        let hello = || Requests::Repeated(hello.clone(), 200);

        let mut polls = Vec::new();
        for _ in 0..rounds {
            self.show(dimension, size, "reserve");
            let tickets = fetch_tickets(&self.server, connections, &opened, &users[..reserves]).await?;
            let requests = reservation_requests(&self.server, &opened, &tickets)?;
            let reserve = Requests::Once(requests, 202);
            let measurement = self.compare(&mut point, Route::Reserve, connections, reserve, hello()).await?;
            polls = status_requests(&self.server, &accepted_orders(&tickets, &measurement)?)?;
            drain::wait_until_drained(&self.app, &opened.activity, &measurement).await?;
        }
        ensure!(!polls.is_empty(), "no reservation was accepted: {:?}", point.unexpected);
        self.show(dimension, size, "sweeping");
        self.sweep_until_idle().await?;
        let tickets = fetch_tickets(&self.server, connections, &opened, &users[reserves..]).await?;
        let refusals = reservation_requests(&self.server, &opened, &tickets)?;
        let list = |user| self.server.request(Method::GET, "/api/orders", Some(user), Bytes::new());
        let my_orders = users[..reserves].iter().map(list).collect::<Result<Vec<_>>>()?;
        let admin = bearer(&self.target.admin_token)?;
        let cron = bearer(self.target.cron_token.as_deref().context("a cron token")?)?;
        let operator = |method: Method, path: &str, token: &HeaderValue| {
            let request = self.server.request(method, path, Some(token), Bytes::new())?;
            anyhow::Ok(Requests::Repeated(vec![request], 200))
        };
        for _ in 0..rounds {
            for route in Route::REPEATED {
                self.show(dimension, size, route.name());
                let (requests, connections) = match route {
                    Route::SoldOut => (Requests::Repeated(refusals.clone(), 409), connections),
                    Route::Reserve | Route::Status => (Requests::Repeated(polls.clone(), 200), connections),
                    Route::MyOrders => (Requests::Repeated(my_orders.clone(), 200), connections),
                    Route::Stats | Route::Audit => {
                        let path = opened.activity.admin_path(if route == Route::Stats { "/stats" } else { "/audit" });
                        (operator(Method::GET, &path, &admin)?, OPERATOR_CONNECTIONS)
                    }
                    Route::Sweep => (operator(Method::POST, "/api/tasks/sweep", &cron)?, OPERATOR_CONNECTIONS),
                };
                self.compare(&mut point, route, connections, requests, hello()).await?;
            }
        }
        setup::close(&self.app, &opened.activity).await?;
        Ok(point)
    }

    /// Measures `requests` with hello world before and after, and adds the result to `point`.
    async fn compare(
        &self,
        point: &mut Point,
        route: Route,
        connections: u16,
        requests: Requests,
        hello: Requests,
    ) -> Result<Measurement> {
        let before = self.measure(connections, hello.clone()).await?.per_second();
        let measurement = self.measure(connections, requests).await?;
        let after = self.measure(connections, hello).await?.per_second();
        point.add(route, measurement.per_second(), median(&[before, after]), &measurement.unexpected);
        Ok(measurement)
    }

    async fn measure(&self, connections: u16, requests: Requests) -> Result<Measurement> {
        let workload = match requests {
            Requests::Once(requests, expected_status) => Workload::once(requests, expected_status),
            Requests::Repeated(requests, expected_status) => {
                Workload::repeating(requests, expected_status, Duration::from_secs_f64(self.options.seconds))
            }
        };
        run_workload(&self.server, connections, workload).await
    }

    /// Sweeps until Redis has confirmed every order: cron would have done so while they were written.
    async fn sweep_until_idle(&self) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(SETTLE_AFTER_MS.unsigned_abs())).await;
        let deadline = Instant::now() + SWEEP_TIMEOUT;
        while Instant::now() < deadline {
            let report = self.app.sweep_report().await.context("a sweep failed")?;
            if report["remaining"]["unsettled"] == 0 {
                return Ok(());
            }
        }
        bail!("orders wait to be confirmed after {} s of sweeps", SWEEP_TIMEOUT.as_secs())
    }

    /// Opens activities until there are `count` beside the measured sale.
    async fn open_activities(&mut self, count: usize) -> Result<()> {
        self.show(Dimension::Activities, count + 1, "opening activities");
        self.bar.set_length(count as u64);
        while self.other_activities.len() < count {
            let rules = Rules { start_in: Duration::ZERO, pay_timeout: 3600, per_user: 1 };
            let mut activity = TestActivity::new(1, 10);
            activity.id = format!("{}-{}", activity.id, self.other_activities.len());
            publish(&self.app, &activity, &rules).await?;
            self.other_activities.push(activity);
            self.bar.set_position(self.other_activities.len() as u64);
        }
        self.bar.set_length(0);
        Ok(())
    }

    /// Starts app processes until there are `count`.
    fn start_processes(&mut self, count: usize) -> Result<()> {
        self.show(Dimension::Processes, count, "starting app processes");
        while 1 + self.other_processes.len() < count {
            let process = self.spawned_app.start_another_process(self.other_processes.len() + 1)?;
            self.server.add_process(process.url())?;
            self.other_processes.push(process);
        }
        Ok(())
    }

    /// Ends the additional processes and closes the additional activities.
    async fn reset(&mut self) -> Result<()> {
        self.other_processes.clear();
        self.server = Server::new(&self.target.url)?;
        for activity in std::mem::take(&mut self.other_activities) {
            setup::close(&self.app, &activity).await?;
        }
        Ok(())
    }

    fn show(&self, dimension: Dimension, size: usize, step: &str) {
        self.bar.set_message(format!("{size} {}: {step}", dimension.name()));
        self.bar.tick();
    }
}

/// Requests and their expected status.
#[derive(Clone)]
enum Requests {
    Once(Vec<PreparedRequest>, u16),
    Repeated(Vec<PreparedRequest>, u16),
}
