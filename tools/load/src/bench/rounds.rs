//! The rounds: hello world before and after each measurement, so that both see the same machine.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use indicatif::ProgressBar;

use super::closed_loop::{Sample, Work, drive};
use super::drain::{self, Drain};
use super::options::Options;
use super::own_app::OwnApp;
use super::prepare::{self, OpenSale};
use super::report::{Kind, Results};
use super::server::Server;
use super::supply::{Prepared, Supply};
use crate::app::App;

/// Orders whose status is asked for.
const LOOKED_AT: usize = 1000;

/// Everything that the rounds use.
pub struct Bench {
    /// The flags.
    pub options: Options,
    /// The app, for what is not measured.
    pub app: App,
    /// The app, for what is.
    pub server: Server,
    /// A sale with stock for everybody.
    pub plenty: OpenSale,
    /// A sale without any.
    pub sold_out: OpenSale,
    /// `Bearer <JWT>` of each user of a round.
    pub users: Vec<HeaderValue>,
    /// Refused reservations.
    pub refused: Vec<Prepared>,
}

impl Bench {
    /// One round: every measurement once, hello world around each.
    pub async fn round(&self, seconds: f64, reserves: usize, results: &mut Results, bar: &ProgressBar) -> Result<()> {
        let limit = Some(Duration::from_secs_f64(seconds));
        let endless = |requests, expect| Work { supply: Supply::endless(requests), expect, limit, keep: 0 };
        let get = |path: &str| anyhow::Ok(vec![self.server.request(Method::GET, path, None, Bytes::new())?]);
        let hello = || -> Result<Work> { Ok(endless(get(&self.options.hello_path)?, 200)) };

        let mut before = self.measure(Kind::Hello, hello()?, results, bar).await?;
        for (kind, path) in
            [(Kind::Activity, self.plenty.terms.path("")), (Kind::Gate, self.plenty.terms.path("/gate.json"))]
        {
            let rate = self.measure(kind, endless(get(&path)?, 200), results, bar).await?;
            before = self.pair(kind, rate, before, hello()?, results, bar).await?;
        }

        bar.set_message(Kind::Ticket.name());
        let (sample, tickets) =
            prepare::tickets(&self.server, &self.options, &self.plenty, &self.users[..reserves]).await?;
        let rate = results.add(Kind::Ticket, sample);
        before = self.pair(Kind::Ticket, rate, before, hello()?, results, bar).await?;
        ensure!(!tickets.is_empty(), "no ticket was issued: {}", results.complaints());

        bar.set_message(Kind::Reserve.name());
        let sample = self.reserve(&tickets).await?;
        let drain = self.drain(&sample).await?;
        let looks = prepare::looks(&self.server, &tickets, &sample.kept)?;
        let rate = results.add(Kind::Reserve, sample);
        results.drains.extend(drain);
        before = self.pair(Kind::Reserve, rate, before, hello()?, results, bar).await?;
        ensure!(!looks.is_empty(), "no reservation was accepted: {}", results.complaints());

        for (kind, requests, expect) in [(Kind::SoldOut, self.refused.clone(), 409), (Kind::Status, looks, 200)] {
            let rate = self.measure(kind, endless(requests, expect), results, bar).await?;
            before = self.pair(kind, rate, before, hello()?, results, bar).await?;
        }
        Ok(())
    }

    /// A backlog that grows while the order writer is held back, and how fast the writer then drains it.
    pub async fn backlog(&self, own: &OwnApp, results: &mut Results) -> Result<()> {
        let (sample, tickets) = prepare::tickets(&self.server, &self.options, &self.plenty, &self.users).await?;
        results.complain(Kind::Ticket, sample);
        own.hold_writer(true)?;
        let filled = self.reserve(&tickets).await;
        own.hold_writer(false)?;
        let filled = filled?;
        results.backlogs.extend(self.drain(&filled).await?);
        results.complain(Kind::Reserve, filled);
        Ok(())
    }

    async fn reserve(&self, tickets: &[String]) -> Result<Sample> {
        let reservations = prepare::reservations(&self.server, &self.plenty, tickets)?;
        let work = Work { supply: Supply::once(reservations), expect: 202, limit: None, keep: LOOKED_AT };
        drive(&self.server, self.options.connections, work).await
    }

    async fn measure(&self, kind: Kind, work: Work, results: &mut Results, bar: &ProgressBar) -> Result<f64> {
        bar.set_message(kind.name());
        let sample = drive(&self.server, self.options.connections, work).await?;
        bar.inc(1);
        Ok(results.add(kind, sample))
    }

    /// Measures hello world once more and notes the ratio to the mean of both neighbours.
    async fn pair(
        &self,
        kind: Kind,
        rate: f64,
        before: f64,
        hello: Work,
        results: &mut Results,
        bar: &ProgressBar,
    ) -> Result<f64> {
        let after = self.measure(Kind::Hello, hello, results, bar).await?;
        results.ratio(kind, rate / ((before + after) / 2.0));
        Ok(after)
    }

    /// Waits for the writer, which also keeps its work out of the next measurement.
    async fn drain(&self, sample: &Sample) -> Result<Option<Drain>> {
        if sample.answers == 0 {
            return Ok(None);
        }
        drain::wait(&self.app, &self.plenty.terms, sample).await.map(Some)
    }
}
