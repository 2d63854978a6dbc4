//! `POST /api/tasks/sweep`: runs one sweep and returns its report (G3).
//!
//! A lease in the ledger keeps sweeps from overlapping. Each step works in batches until it has nothing left to do or
//! the time budget is used up.

use std::time::{Duration, Instant};

use domain::{ids::ActivityId, time::Millis};
use platform::{
    auth, config,
    http::{ApiError, Request, Response, method_not_allowed},
    ledger::SpinLedger,
    random,
    redis::SpinRedis,
};
use serde_json::json;
use spin_sdk::http::Method;
use ulid::Ulid;
use workflows::{
    cache::listed_activities,
    ledger::leases::{self, Lease},
    recovery::sweep::{self, LEASE, LEASE_MS, Report},
};

use crate::{budget::TIME_BUDGET, events, payments, retention};

/// Runs a sweep, unless another sweeper holds the lease.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    if request.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    auth::require_token(request, "cron_token").await?;
    let now = SpinRedis.now().await?;
    let ledger = SpinLedger::open_for_batch().await;
    let owner = Ulid::from_parts(now.0.unsigned_abs(), random::bits()).to_string();
    let Some(lease) = leases::acquire(&ledger, LEASE, &owner, now, LEASE_MS).await? else {
        return Ok(Response::json(200, &json!({ "swept": false, "because": "another sweeper is at work" })));
    };
    let mut run = SweepRun::new(ledger, lease, now);
    let result = run.run_steps(&owner).await;
    leases::release(&run.ledger, &run.lease).await?;
    result?;
    if events::switch_outbox(&run.ledger).await? {
        events::deliver(&run.ledger, &owner, run.started, &mut run.report).await?;
        run.record_step("events");
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
    step_started: Instant,
    report: Report,
}

impl SweepRun {
    fn new(ledger: SpinLedger, lease: Lease, now: Millis) -> Self {
        let started = Instant::now();
        Self { ledger, lease, now, started, step_started: started, report: Report::default() }
    }

    /// Runs every step until it has nothing left to do, the time is up, or the lease is lost.
    async fn run_steps(&mut self, owner: &str) -> Result<(), ApiError> {
        let activities = listed_activities::list(&SpinRedis).await?;
        let secret = config::secret("ticket_secret").await?;
        sweep::check_gates(&SpinRedis, &self.ledger, &activities, &secret, self.now, &mut self.report).await?;
        self.record_step("fence");
        // Half of the time at most, so that long queues do not delay the expiry of due orders.
        self.drain(&activities, TIME_BUDGET / 2).await?;
        self.run_rounds(TIME_BUDGET).await?;
        if !self.report.more {
            retention::erase(&self.ledger, owner, self.now, &mut self.report).await?;
            self.record_step("erase");
        }
        self.report.left = sweep::count_remaining(&SpinRedis, &self.ledger, &activities, self.now).await?;
        self.record_step("left");
        Ok(())
    }

    /// Drains the stream of every activity, beginning after the activity that was drained last.
    async fn drain(&mut self, activities: &[ActivityId], budget: Duration) -> Result<(), ApiError> {
        for activity in sweep::rotate_after(activities.to_vec(), &self.lease.resume_after) {
            // With a slow Redis, the empty reads alone may use up the time.
            if self.started.elapsed() >= budget {
                self.report.more = true;
                break;
            }
            self.lease.resume_after = activity.to_string();
            while sweep::drain_batch(&SpinRedis, &self.ledger, &activity, self.now, &mut self.report).await? {
                if !self.renew_lease(budget).await? {
                    break;
                }
            }
            if self.report.more {
                break;
            }
        }
        self.record_step("drain");
        Ok(())
    }

    /// Expires orders, settles them and processes payments, in rounds.
    async fn run_rounds(&mut self, budget: Duration) -> Result<(), ApiError> {
        // Orders and callbacks of an activity that is being rebuilt are skipped, so that they do not hold up the
        // others.
        let (mut skipped_orders, mut skipped_callbacks) = (0, 0);
        loop {
            let skipped_before = skipped_orders;
            // Units are released before providers are called, because a provider may be slow.
            let expired = sweep::expire(&SpinRedis, &self.ledger, self.now, Some(&self.lease)).await?;
            self.record_step("expire");
            let settled = sweep::settle(&SpinRedis, &self.ledger, self.now, &mut skipped_orders).await?;
            self.record_step("settle");
            let payments_processed =
                payments::run_round(&self.ledger, self.now, &mut skipped_callbacks, &mut self.report).await?;
            self.record_step("money");
            self.report.expired += expired;
            self.report.settled += settled;
            let processed = expired + settled + skipped_orders - skipped_before;
            if !payments_processed && processed == 0 || !self.renew_lease(budget).await? {
                return Ok(());
            }
        }
    }

    /// Renews the lease; returns whether there is time left and the lease was not lost.
    async fn renew_lease(&mut self, budget: Duration) -> Result<bool, ApiError> {
        let elapsed = self.started.elapsed();
        let until = self.now.plus(elapsed.as_millis() as i64 + LEASE_MS);
        let proceed = elapsed < budget && leases::renew(&self.ledger, &self.lease, until).await?;
        self.report.more |= !proceed;
        Ok(proceed)
    }

    /// Adds the time since the last step to `step` in the report.
    fn record_step(&mut self, step: &'static str) {
        *self.report.steps_ms.entry(step).or_default() += self.step_started.elapsed().as_millis() as i64;
        self.step_started = Instant::now();
    }
}
