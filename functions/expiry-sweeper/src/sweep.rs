//! `POST /api/tasks/sweep`: runs one sweep and returns its report (G3).
//!
//! A lease in the ledger keeps sweeps from overlapping. Each step works in batches until it has nothing left to do or
//! the time budget is used up.

use std::time::{Duration, Instant};

use domain::{routes::ExpirySweeper, time::Millis};
use platform::{
    auth, config,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    log, random,
    redis::SpinRedis,
};
use serde_json::json;
use ulid::Ulid;
use workflows::{
    Sql,
    cache::listed_activities,
    ledger::leases::{self, Lease},
    recovery::{
        gates,
        rebuild::Budget,
        report::Report,
        sweep::{self, LEASE, LEASE_MS},
    },
};

use crate::{budget::TIME_BUDGET, events, payments, rebuilds, retention};

/// Runs a sweep, unless another sweeper holds the lease.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    let (ExpirySweeper::Sweep, _) = request.route()?;
    auth::require_token(request, "cron_token").await?;
    let now = SpinRedis.now().await?;
    let ledger = SpinLedger::open_for_batch().await;
    let owner = Ulid::from_parts(now.0.unsigned_abs(), random::bits()).to_string();
    let Some(lease) = leases::acquire(&ledger, LEASE, &owner, now, LEASE_MS).await? else {
        return Ok(Response::json(200, &json!({ "swept": false, "because": "another sweeper is at work" })));
    };
    let mut run = SweepRun::new(ledger, lease, now);
    let result = run.run_steps(&owner).await;
    for (activity, error) in &run.report.failures {
        let fields = [("activity", activity.as_str().into()), ("because", error.to_string().into())];
        log::error("a sweep left this activity to the next one", &fields);
    }
    run.ledger.forget_timeouts();
    let released = leases::release(&run.ledger, &run.lease).await;
    result?;
    released?;
    if events::switch_outbox(&run.ledger).await? {
        let step = Instant::now();
        events::deliver(&run.ledger, &owner, run.started, &mut run.report).await?;
        run.report.add_time("events", step);
    }
    let mut document = json!(run.report);
    document["swept"] = true.into();
    document["duration_ms"] = (run.started.elapsed().as_millis() as i64).into();
    Ok(Response::json(200, &document))
}

/// The state of one sweep.
struct SweepRun {
    ledger: SpinLedger,
    lease: Lease,
    now: Millis,
    started: Instant,
    report: Report,
}

impl SweepRun {
    fn new(ledger: SpinLedger, lease: Lease, now: Millis) -> Self {
        Self { ledger, lease, now, started: Instant::now(), report: Report::default() }
    }

    /// Runs every step until it has nothing left to do, the time is up, or the lease is lost.
    async fn run_steps(&mut self, owner: &str) -> Result<(), ApiError> {
        let activities = listed_activities::list(&SpinRedis).await?;
        let secret = config::secret("ticket_secret").await?;
        let step = Instant::now();
        let with_messages =
            gates::check_gates(&SpinRedis, &self.ledger, &activities, &secret, self.now, &mut self.report).await?;
        self.report.add_time("fence", step);
        // The rest of the time is for payments, which a backlog of orders must not keep waiting.
        let time = (self.started, TIME_BUDGET * 6 / 10);
        let Self { ledger, lease, now, report, .. } = self;
        // Units are released before providers are called, because a provider may be slow.
        sweep::work_in_turns(&SpinRedis, ledger, lease, &with_messages, *now, time, report).await?;
        self.process_payments().await?;
        if self.started.elapsed() < TIME_BUDGET {
            let step = Instant::now();
            retention::erase(&self.ledger, owner, (self.now, self.started), &mut self.report).await?;
            self.report.add_time("erase", step);
        }
        // Last, and with time of its own: what other activities need comes first.
        if self.renew_lease(TIME_BUDGET + Budget::SWEEP.time).await? {
            let step = Instant::now();
            rebuilds::continue_rebuilds(&self.ledger, &secret, self.now, &mut self.report).await?;
            self.report.add_time("rebuild", step);
        }
        let step = Instant::now();
        self.report.left = sweep::count_remaining(&SpinRedis, &self.ledger, &activities, self.now).await?;
        self.report.add_time("left", step);
        Ok(())
    }

    /// Processes callbacks, payment sessions and refunds, in rounds.
    async fn process_payments(&mut self) -> Result<(), ApiError> {
        let step = Instant::now();
        let mut skipped_callbacks = 0;
        while payments::run_round(&self.ledger, self.now, &mut skipped_callbacks, &mut self.report).await? {
            if !self.renew_lease(TIME_BUDGET).await? {
                break;
            }
        }
        self.report.add_time("money", step);
        Ok(())
    }

    /// Renews the lease; returns whether there is time left and the lease was not lost.
    async fn renew_lease(&mut self, budget: Duration) -> Result<bool, ApiError> {
        let elapsed = self.started.elapsed();
        let until = self.now.plus(elapsed.as_millis() as i64 + LEASE_MS);
        let proceed = elapsed < budget && leases::renew(&self.ledger, &self.lease, until).await?;
        self.report.more |= !proceed;
        Ok(proceed)
    }
}
