//! `POST /api/tasks/sweep`: one at a time by a lease, bounded by time, a report as JSON (G3).

use std::time::{Duration, Instant};

use domain::{ids::ActivityId, time::Millis};
use platform::{
    activity_cache, auth, config,
    http::{ApiError, Request, Response, method_not_allowed},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde_json::json;
use spin_sdk::http::Method;
use ulid::Ulid;
use workflows::{
    ledger::leases::{self, Lease},
    recovery::sweep::{self, LEASE, LEASE_MS, Report},
};

use crate::{events, payments, retention};

/// How long one call works at most.
pub const TIME_BUDGET: Duration = Duration::from_secs(10);

/// Sweeps, unless another sweeper is at it.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    if request.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    auth::require_token(request, "cron_token").await?;
    let now = SpinRedis.now().await?;
    let ledger = SpinLedger::open_for_batch().await;
    let owner = Ulid::from_parts(now.0.unsigned_abs(), activity_cache::random()).to_string();
    let Some(lease) = leases::acquire(&ledger, LEASE, &owner, now, LEASE_MS).await? else {
        return Ok(Response::json(200, &json!({ "swept": false, "because": "another sweeper is at work" })));
    };
    let mut run = SweepRun::new(ledger, lease, now);
    let result = run.run_steps(&owner).await;
    leases::renew(&run.ledger, &run.lease, Millis(0)).await?;
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

/// One call's work.
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

    /// Every step until it has nothing left to do, or the time is up, or the lease is somebody else's.
    async fn run_steps(&mut self, owner: &str) -> Result<(), ApiError> {
        let activities = sweep::list_activities(&SpinRedis).await?;
        let secret = config::secret("ticket_secret").await?;
        sweep::check_gates(&SpinRedis, &self.ledger, &activities, &secret, self.now, &mut self.report).await?;
        self.record_step("fence");
        // Half of the time at most: orders that are due wait for nobody's queue.
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

    /// Drains every sale's stream, beginning after the one that was drained last.
    async fn drain(&mut self, activities: &[ActivityId], budget: Duration) -> Result<(), ApiError> {
        for activity in sweep::rotate_after(activities.to_vec(), &self.lease.resume_after) {
            // A Redis that is slow may take all of it, without any work.
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

    /// Expiry, settling and money, round by round.
    async fn run_rounds(&mut self, budget: Duration) -> Result<(), ApiError> {
        // What waits for a rebuild is stepped over: one sale holds up no other.
        let (mut fenced, mut skipped_callbacks) = (0, 0);
        loop {
            let fenced_before = fenced;
            // Stock first: a provider may be slow.
            let expired = sweep::expire(&SpinRedis, &self.ledger, self.now, Some(&self.lease)).await?;
            self.record_step("expire");
            let settled = sweep::settle(&SpinRedis, &self.ledger, self.now, &mut fenced).await?;
            self.record_step("settle");
            let payments_processed =
                payments::run_round(&self.ledger, self.now, &mut skipped_callbacks, &mut self.report).await?;
            self.record_step("money");
            self.report.expired += expired;
            self.report.settled += settled;
            let processed = expired + settled + fenced - fenced_before;
            if !payments_processed && processed == 0 || !self.renew_lease(budget).await? {
                return Ok(());
            }
        }
    }

    /// Keeps the lease; whether there is time left and it is still ours.
    async fn renew_lease(&mut self, budget: Duration) -> Result<bool, ApiError> {
        let elapsed = self.started.elapsed();
        let until = self.now.plus(elapsed.as_millis() as i64 + LEASE_MS);
        let proceed = elapsed < budget && leases::renew(&self.ledger, &self.lease, until).await?;
        self.report.more |= !proceed;
        Ok(proceed)
    }

    /// Counts the time since the last mark as a step's.
    fn record_step(&mut self, step: &'static str) {
        *self.report.steps_ms.entry(step).or_default() += self.step_started.elapsed().as_millis() as i64;
        self.step_started = Instant::now();
    }
}
