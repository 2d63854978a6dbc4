//! The app under test, and the steps that prepare measurements.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::header::HeaderValue;
use indicatif::ProgressBar;

use super::{
    options::Options,
    requests::{self, OpenActivity, Ticket},
    server::Server,
    spawned_app::SpawnedApp,
    workload::{Measurement, Workload, run_workload},
};
use crate::{
    app::{ADMIN_TIMEOUT, App},
    simulation::{
        gate::{GatePoller, wait_until_open},
        progress::style,
        samples::fetch_stats,
        setup::{self, Rules, TestActivity, publish},
    },
    target::Target,
};

/// Pause between two looks at the queue. Bounds the error of a one-second measurement to two percent.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time until the queue is empty.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);

pub struct Bench<'a> {
    pub options: &'a Options,
    pub spawned_app: Option<&'a SpawnedApp>,
    pub target: Target,
    /// Client for requests that are not measured.
    pub app: App,
    /// Server for requests that are measured.
    pub server: Server,
    /// The floors; `None` if there are none to compare with.
    pub floors: Option<Server>,
    pub bar: ProgressBar,
}

impl<'a> Bench<'a> {
    pub async fn new(
        options: &'a Options,
        target: Target,
        floors: Option<&str>,
        spawned_app: Option<&'a SpawnedApp>,
    ) -> Result<Self> {
        let app = App::new(&target, options.most_connections(), Duration::from_secs(10))?;
        setup::check_reachable(&app, &target.url).await?;
        let (server, floors) = (Server::new(&target.url)?, floors.map(Server::new).transpose()?);
        let bar = ProgressBar::new(0).with_style(style("{bar:32} {pos}/{len} {msg} {elapsed}"));
        Ok(Self { options, spawned_app, target, app, server, floors, bar })
    }

    /// Whether each route is measured at half load, too.
    pub fn measures_half_load(&self) -> bool {
        self.options.growth.is_none()
    }

    /// Creates an activity with `stock` units and an hour to pay that opens in a second, and waits until it is open.
    pub async fn open_activity(&self, stock: usize, per_user: u32) -> Result<OpenActivity> {
        let activity = TestActivity::new(1, i64::try_from(stock)?);
        let rules = Rules { start_in: Duration::from_secs(1), pay_timeout: 3600, per_user, line: None };
        publish(&self.app, &activity, &rules).await?;
        let poller = GatePoller::start(&self.app, &activity);
        let (_, gate) = wait_until_open(&mut poller.view.clone(), ADMIN_TIMEOUT).await?;
        let start_key = gate.start_key.context("the gate is open and has no start_key")?;
        Ok(OpenActivity { activity, start_key })
    }

    /// Fetches a ticket for each user.
    pub async fn fetch_tickets(&self, opened: &OpenActivity, users: &[HeaderValue]) -> Result<Vec<Ticket>> {
        let workload = Workload::once(requests::tickets(&self.server, opened, users)?, 201);
        let measurement = run_workload(&self.server, self.options.most_connections(), workload).await?;
        ensure!(measurement.unexpected.is_empty(), "a ticket was not issued: {:?}", measurement.unexpected);
        requests::issued_tickets(&measurement)
    }

    /// Reserves a unit with each ticket.
    pub async fn reserve(&self, opened: &OpenActivity, tickets: &[Ticket]) -> Result<Measurement> {
        let workload = Workload::once(requests::reservations(&self.server, opened, tickets)?, 202);
        run_workload(&self.server, self.options.most_connections(), workload).await
    }

    /// Waits until all orders are in the ledger. Returns how many of them the order writer wrote in a second.
    pub async fn wait_until_drained(&self, opened: &OpenActivity) -> Result<f64> {
        let waiting_since = Instant::now();
        let mut first_poll = None;
        loop {
            let asked_at = Instant::now();
            let stats = fetch_stats(&self.app, &opened.activity, ADMIN_TIMEOUT).await;
            let queued = stats.context("the admin API shows no live figures")?.queue;
            let (first, since) = *first_poll.get_or_insert((queued, asked_at));
            if queued == 0 {
                return Ok(first as f64 / since.elapsed().as_secs_f64());
            }
            ensure!(
                waiting_since.elapsed() < DRAIN_TIMEOUT,
                "{queued} orders still wait for the order writer after {} s: is it running?",
                DRAIN_TIMEOUT.as_secs()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
