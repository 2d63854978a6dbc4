//! Runs the rounds: hello world before and after each measurement, under the same conditions.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use indicatif::ProgressBar;

use super::closed_loop::{Measurement, Workload, run_workload};
use super::drain::{self, Drain};
use super::options::Options;
use super::prepare::{self, OpenActivity};
use super::report::{MeasurementKind, Results};
use super::request_source::{PreparedRequest, RequestSource};
use super::server::Server;
use super::spawned_app::SpawnedApp;
use crate::app::App;

/// Orders to poll the status of, per round.
const STATUS_ORDERS: usize = 1000;

pub struct Bench {
    pub options: Options,
    /// Client for requests that are not measured.
    pub app: App,
    /// Server for requests that are measured.
    pub server: Server,
    /// An activity with stock for all reservations.
    pub in_stock: OpenActivity,
    pub sold_out: OpenActivity,
    /// `Bearer <JWT>` of each user.
    pub user_tokens: Vec<HeaderValue>,
    pub sold_out_requests: Vec<PreparedRequest>,
}

impl Bench {
    /// Runs one round: each measurement once, with hello world before and after it.
    pub async fn run_round(
        &self,
        seconds: f64,
        reserves: usize,
        results: &mut Results,
        bar: &ProgressBar,
    ) -> Result<()> {
        let time_limit = Some(Duration::from_secs_f64(seconds));
        let repeating = |requests, expected_status| Workload {
            requests: RequestSource::repeating(requests),
            expected_status,
            time_limit,
            keep_bodies: 0,
        };
        let get = |path: &str| anyhow::Ok(vec![self.server.request(Method::GET, path, None, Bytes::new())?]);
        let hello = || -> Result<Workload> { Ok(repeating(get(&self.options.hello_path)?, 200)) };

        let mut before = self.measure(MeasurementKind::Hello, hello()?, results, bar).await?;
        for (kind, path) in [
            (MeasurementKind::Activity, self.in_stock.activity.path("")),
            (MeasurementKind::Gate, self.in_stock.activity.path("/gate.json")),
        ] {
            let rate = self.measure(kind, repeating(get(&path)?, 200), results, bar).await?;
            before = self.compare_with_hello(kind, rate, before, hello()?, results, bar).await?;
        }

        bar.set_message(MeasurementKind::Ticket.name());
        let (measurement, tickets) =
            prepare::fetch_tickets(&self.server, &self.options, &self.in_stock, &self.user_tokens[..reserves]).await?;
        let rate = results.add(MeasurementKind::Ticket, measurement);
        before = self.compare_with_hello(MeasurementKind::Ticket, rate, before, hello()?, results, bar).await?;
        ensure!(!tickets.is_empty(), "no ticket was issued: {:?}", results.report.unexpected);

        bar.set_message(MeasurementKind::Reserve.name());
        let measurement = self.reserve(&tickets).await?;
        let drain = self.wait_for_writer(&measurement).await?;
        let status_requests = prepare::status_requests(&self.server, &tickets, &measurement.bodies)?;
        let rate = results.add(MeasurementKind::Reserve, measurement);
        results.report.drains.extend(drain);
        before = self.compare_with_hello(MeasurementKind::Reserve, rate, before, hello()?, results, bar).await?;
        ensure!(!status_requests.is_empty(), "no reservation was accepted: {:?}", results.report.unexpected);

        for (kind, requests, expected_status) in [
            (MeasurementKind::SoldOut, self.sold_out_requests.clone(), 409),
            (MeasurementKind::Status, status_requests, 200),
        ] {
            let rate = self.measure(kind, repeating(requests, expected_status), results, bar).await?;
            before = self.compare_with_hello(kind, rate, before, hello()?, results, bar).await?;
        }
        Ok(())
    }

    /// Pauses the order writer while reservations fill the queue, and measures how fast the writer drains it.
    pub async fn measure_drain_after_pause(&self, spawned_app: &SpawnedApp, results: &mut Results) -> Result<()> {
        let (measurement, tickets) =
            prepare::fetch_tickets(&self.server, &self.options, &self.in_stock, &self.user_tokens).await?;
        results.add_unexpected(MeasurementKind::Ticket, measurement.unexpected);
        spawned_app.pause_writer(true)?;
        let reservations = self.reserve(&tickets).await;
        spawned_app.pause_writer(false)?;
        let reservations = reservations?;
        results.report.drains_after_pause.extend(self.wait_for_writer(&reservations).await?);
        results.add_unexpected(MeasurementKind::Reserve, reservations.unexpected);
        Ok(())
    }

    async fn reserve(&self, tickets: &[String]) -> Result<Measurement> {
        let reservations = prepare::reservation_requests(&self.server, &self.in_stock, tickets)?;
        let workload = Workload {
            requests: RequestSource::once(reservations),
            expected_status: 202,
            time_limit: None,
            keep_bodies: STATUS_ORDERS,
        };
        run_workload(&self.server, self.options.connections, workload).await
    }

    async fn measure(
        &self,
        kind: MeasurementKind,
        workload: Workload,
        results: &mut Results,
        bar: &ProgressBar,
    ) -> Result<f64> {
        bar.set_message(kind.name());
        let measurement = run_workload(&self.server, self.options.connections, workload).await?;
        bar.inc(1);
        Ok(results.add(kind, measurement))
    }

    /// Measures hello world again and records the ratio of `rate` to the mean of hello world before and after.
    /// Returns the new hello-world rate.
    async fn compare_with_hello(
        &self,
        kind: MeasurementKind,
        rate: f64,
        before: f64,
        hello: Workload,
        results: &mut Results,
        bar: &ProgressBar,
    ) -> Result<f64> {
        let after = self.measure(MeasurementKind::Hello, hello, results, bar).await?;
        results.add_ratio(kind, rate / ((before + after) / 2.0));
        Ok(after)
    }

    /// Waits until the order writer is done. Its work would otherwise disturb the next measurement.
    async fn wait_for_writer(&self, measurement: &Measurement) -> Result<Option<Drain>> {
        if measurement.succeeded == 0 {
            return Ok(None);
        }
        drain::wait_until_drained(&self.app, &self.in_stock.activity, measurement).await.map(Some)
    }
}
