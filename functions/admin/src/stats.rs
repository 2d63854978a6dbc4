//! Live stats, audit and rebuild of one activity.

use domain::{
    http::problem::{Code, Problem},
    ids::ActivityId,
};
use operations::{
    commands::{
        audit,
        documents::{Rebuilt, RunningRebuild, Stats},
        stats,
    },
    ledger::sales,
    upkeep::{
        budget::Budget,
        rebuild::{Rebuild, RebuildOutcome},
    },
};
use orders::ledger::line_entries;
use platform::{
    http::{ApiError, Request, Response, not_found},
    key_value::SpinKeyValue,
    ledger::SpinLedger,
    redis::SpinRedis,
    settings,
};
use sale::ledger::activities;
use stores::shared_value::SharedValue;

use crate::call::Outcome;

/// Handles `GET …/stats`: Redis's counters at one instant, and the ledger's figures.
pub async fn stats(id: &ActivityId) -> Result<Response, ApiError> {
    let ledger = SpinLedger::open_for_batch().await;
    let Some(stats) = stats::stats(&SpinRedis, id).await? else {
        let activity = activities::load(&ledger, id).await?;
        return Err(activity.map_or_else(|| not_found("There is no such sale."), |_| missing_gate()));
    };
    let orders = stats::orders_by_status(&ledger, id).await?;
    let figures = sales::load(&ledger, &[id]).await?.remove(id).unwrap_or_default();
    let offers = line_entries::count_offers(&ledger, id).await?;
    Ok(Response::json(200, &Stats { redis: stats, figures, orders, offers }))
}

/// Handles `GET …/audit`: checks the invariants per SKU. An audit reads all orders of the sale, so one runs at a time:
/// requests that come meanwhile share the next one.
pub async fn audit(id: &ActivityId) -> Result<Response, ApiError> {
    let shared = SharedValue {
        key: &format!("audit:{id}"),
        lease_key: &format!("{{{id}}}:audit"),
        lease_ms: 10_000,
        fresh_ms: None,
        max_age_ms: -1,
        max_wait_ms: 10_000,
    };
    let ledger = SpinLedger::open_for_batch().await;
    let activity = activities::load(&ledger, id).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let per_user = activity.spec.per_user;
    let run = async || audit::audit(&SpinRedis, &ledger, id, per_user).await;
    let audit = shared.get(&SpinRedis, &SpinKeyValue, |_| true, run).await?;
    Ok(Response::json(200, &audit.ok_or_else(missing_gate)?))
}

/// Handles `POST …/rebuild`: rebuilds Redis from the ledger while the activity is paused or closed (G5). Answers `202`
/// with the progress when the time is up; the client repeats the request, with the `epoch` of that answer.
pub async fn rebuild(request: &Request, id: &ActivityId) -> Result<Outcome, ApiError> {
    let epoch = match request.query_param("epoch").filter(|epoch| !epoch.is_empty()) {
        Some(epoch) => Some(epoch.parse().ok().filter(|epoch: &i64| *epoch > 0).ok_or_else(|| {
            Problem::new(Code::InvalidRequest, "epoch must be the number, above 0, that the last call returned.")
        })?),
        None => None,
    };
    let ticket_secret = &settings::load(settings::TICKET_SECRET).await?;
    let now = SpinRedis.now().await?;
    let (redis, sql, budget) = (&SpinRedis, &SpinLedger::open_for_batch().await, Budget::REQUEST);
    let rebuilt = Rebuild { redis, sql, activity: id, ticket_secret, now, budget }.run(epoch).await?;
    let detail = match rebuilt {
        RebuildOutcome::Done { orders, epoch } => {
            return Ok(Outcome::changed(200, &Rebuilt { outcome: "done", orders, epoch }));
        }
        RebuildOutcome::Running(progress) => return Ok(Outcome::changed(202, &RunningRebuild::from(progress))),
        RebuildOutcome::NotFound => return Err(not_found("There is no such sale.")),
        RebuildOutcome::Draft => "The sale was never published: there is nothing to rebuild.",
        RebuildOutcome::Open => "The sale is open: pause it first.",
        RebuildOutcome::Queued => "Orders are still in the queue: wait until they are written, and try again.",
        RebuildOutcome::SkuLost => "An order was paid whose SKU the ledger lost: put the SKU back first.",
        RebuildOutcome::Fenced => "Other rebuilds are at work: try again.",
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}

fn missing_gate() -> ApiError {
    not_found("The sale has no gate in Redis: publish it.")
}
