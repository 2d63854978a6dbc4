//! `POST /api/tasks/sweep`: one at a time by a lease, bounded by time, a report as JSON (G3).

use std::time::{Duration, Instant};

use domain::{ids::ActivityId, time::Millis};
use platform::{
    activity_cache, auth, config,
    http::{Answer, Call, Failure, method_not_allowed},
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
pub const BUDGET: Duration = Duration::from_secs(10);

/// Sweeps, unless another sweeper is at it.
pub async fn post(call: &Call) -> Result<Answer, Failure> {
    if call.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    auth::operator(call, "cron_token").await?;
    let now = SpinRedis.now().await?;
    let ledger = SpinLedger::open_for_work().await;
    let owner = Ulid::from_parts(now.0.unsigned_abs(), activity_cache::random()).to_string();
    let Some(lease) = leases::take(&ledger, LEASE, &owner, now, LEASE_MS).await? else {
        return Ok(Answer::json(200, &json!({ "swept": false, "because": "another sweeper is at work" })));
    };
    let mut shift = Shift::new(ledger, lease, now);
    let worked = shift.work(&owner).await;
    leases::keep(&shift.ledger, &shift.lease, Millis(0)).await?;
    worked?;
    if events::turn(&shift.ledger).await? {
        events::deliver(&shift.ledger, &owner, shift.started, &mut shift.report).await?;
        shift.mark("events");
    }
    let mut document = json!(shift.report);
    document["swept"] = true.into();
    document["duration_ms"] = (shift.started.elapsed().as_millis() as i64).into();
    Ok(Answer::json(200, &document))
}

/// One call's work.
struct Shift {
    ledger: SpinLedger,
    lease: Lease,
    now: Millis,
    started: Instant,
    marked: Instant,
    report: Report,
}

impl Shift {
    fn new(ledger: SpinLedger, lease: Lease, now: Millis) -> Self {
        let started = Instant::now();
        Self { ledger, lease, now, started, marked: started, report: Report::default() }
    }

    /// Every step until it has nothing left to do, or the time is up, or the lease is somebody else's.
    async fn work(&mut self, owner: &str) -> Result<(), Failure> {
        let activities = sweep::activities(&SpinRedis).await?;
        let secret = config::secret("ticket_secret").await?;
        sweep::fence(&SpinRedis, &self.ledger, &activities, &secret, self.now, &mut self.report).await?;
        self.mark("fence");
        // Half of the time at most: orders that are due wait for nobody's queue.
        self.drain(&activities, BUDGET / 2).await?;
        self.rounds(BUDGET).await?;
        if !self.report.more {
            retention::erase(&self.ledger, owner, self.now, &mut self.report).await?;
            self.mark("erase");
        }
        self.report.left = sweep::left(&SpinRedis, &self.ledger, &activities, self.now).await?;
        self.mark("left");
        Ok(())
    }

    /// Drains every sale's stream, beginning after the one that was drained last.
    async fn drain(&mut self, activities: &[ActivityId], budget: Duration) -> Result<(), Failure> {
        for activity in sweep::in_turn(activities.to_vec(), &self.lease.resume_after) {
            // A Redis that is slow may take all of it, without any work.
            if self.started.elapsed() >= budget {
                self.report.more = true;
                break;
            }
            self.lease.resume_after = activity.to_string();
            while sweep::drain(&SpinRedis, &self.ledger, &activity, self.now, &mut self.report).await? {
                if !self.goes_on(budget).await? {
                    break;
                }
            }
            if self.report.more {
                break;
            }
        }
        self.mark("drain");
        Ok(())
    }

    /// Expiry, settling and money, round by round.
    async fn rounds(&mut self, budget: Duration) -> Result<(), Failure> {
        // What waits for a rebuild is stepped over: one sale holds up no other.
        let (mut fenced, mut waiting) = (0, 0);
        loop {
            let before = fenced;
            // Stock first: a provider may be slow.
            let expired = sweep::expire(&SpinRedis, &self.ledger, self.now, Some(&self.lease)).await?;
            self.mark("expire");
            let settled = sweep::settle(&SpinRedis, &self.ledger, self.now, &mut fenced).await?;
            self.mark("settle");
            let moved = payments::round(&self.ledger, self.now, &mut waiting, &mut self.report).await?;
            self.mark("money");
            self.report.expired += expired;
            self.report.settled += settled;
            let looked_at = expired + settled + fenced - before;
            if !moved && looked_at == 0 || !self.goes_on(budget).await? {
                return Ok(());
            }
        }
    }

    /// Keeps the lease; whether there is time left and it is still ours.
    async fn goes_on(&mut self, budget: Duration) -> Result<bool, Failure> {
        let elapsed = self.started.elapsed();
        let until = self.now.plus(elapsed.as_millis() as i64 + LEASE_MS);
        let goes_on = elapsed < budget && leases::keep(&self.ledger, &self.lease, until).await?;
        self.report.more |= !goes_on;
        Ok(goes_on)
    }

    /// Counts the time since the last mark as a step's.
    fn mark(&mut self, step: &'static str) {
        *self.report.steps_ms.entry(step).or_default() += self.marked.elapsed().as_millis() as i64;
        self.marked = Instant::now();
    }
}
