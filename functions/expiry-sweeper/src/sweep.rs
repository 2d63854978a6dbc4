//! `POST /api/tasks/sweep`: one at a time by a lease, bounded by time, a report as JSON (G3).

use std::time::{Duration, Instant};

use serde_json::json;
use spin_sdk::http::Method;
use stampede_domain::time::Millis;
use stampede_platform::{
    auth,
    http::{Answer, Call, Failure, method_not_allowed},
    ledger::SpinLedger,
    redis::SpinRedis,
    sales,
};
use stampede_sale::{
    money,
    sweep::{self, LEASE_KEY, LEASE_MS, Report},
};
use ulid::Ulid;

use crate::refunds;

/// How long one call works at most.
const BUDGET: Duration = Duration::from_secs(10);

/// Sweeps, unless another sweeper is at it.
pub async fn post(call: &Call) -> Result<Answer, Failure> {
    if call.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    auth::operator(call, "cron_token").await?;
    let now = SpinRedis.now().await?;
    let owner = Ulid::from_parts(now.0.unsigned_abs(), sales::random()).to_string();
    if !sweep::lease_of(&SpinRedis, LEASE_KEY, &owner, LEASE_MS).await? {
        return Ok(Answer::json(200, &json!({ "swept": false, "because": "another sweeper is at work" })));
    }
    let started = Instant::now();
    let swept = work(now, started).await;
    sweep::lease_of(&SpinRedis, LEASE_KEY, &owner, 0).await?;
    let report = swept?;
    let mut document = json!(report);
    document["swept"] = true.into();
    document["duration_ms"] = (started.elapsed().as_millis() as i64).into();
    Ok(Answer::json(200, &document))
}

/// Every step until it has nothing left to do, or the time is up.
async fn work(now: Millis, started: Instant) -> Result<Report, Failure> {
    let ledger = SpinLedger::open().await;
    let mut report = Report::default();
    for activity in sweep::activities(&SpinRedis).await? {
        while sweep::drain(&SpinRedis, &ledger, &activity, now, &mut report).await? {
            if started.elapsed() > BUDGET {
                report.more = true;
                return Ok(report);
            }
        }
    }
    loop {
        let expired = sweep::expire(&SpinRedis, &ledger, now).await?;
        let settled = sweep::settle(&SpinRedis, &ledger, now).await?;
        let callbacks = money::finish_callbacks(&SpinRedis, &ledger, now, 200).await?;
        let refunds = refunds::send(&ledger, now).await?;
        report.expired += expired;
        report.settled += settled;
        report.callbacks += callbacks;
        report.refunds += refunds;
        if expired + settled + callbacks + refunds == 0 {
            return Ok(report);
        }
        if started.elapsed() > BUDGET {
            report.more = true;
            return Ok(report);
        }
    }
}
