//! Live stats, audit and rebuild of one activity.

use domain::{
    ids::ActivityId,
    problem::{Code, Problem},
};
use platform::{
    config,
    http::{ApiError, Response, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde_json::json;
use workflows::{
    ledger::activities,
    operator::{audit, stats},
    recovery::rebuild::{self, RebuildOutcome},
};

/// Handles `GET …/stats`: Redis's counters at one instant, and the ledger's orders by status.
pub async fn stats(id: &ActivityId) -> Result<Response, ApiError> {
    let ledger = SpinLedger::open_for_batch().await;
    let Some(stats) = stats::stats(&SpinRedis, id).await? else {
        let activity = activities::load(&ledger, id).await?;
        return Err(activity.map_or_else(|| not_found("There is no such sale."), |_| missing_gate()));
    };
    let orders = stats::orders_by_status(&ledger, id).await?;
    let mut document = json!(stats);
    document["orders"] = json!(orders);
    Ok(Response::json(200, &document))
}

/// Handles `GET …/audit`: checks the invariants per SKU.
pub async fn audit(id: &ActivityId) -> Result<Response, ApiError> {
    let ledger = SpinLedger::open_for_batch().await;
    let activity = activities::load(&ledger, id).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let audit = audit::audit(&SpinRedis, &ledger, id, activity.spec.per_user).await?.ok_or_else(missing_gate)?;
    Ok(Response::json(200, &audit))
}

/// Handles `POST …/rebuild`: rebuilds Redis from the ledger while the activity is paused or closed (G5).
pub async fn rebuild(id: &ActivityId) -> Result<Response, ApiError> {
    let secret = config::secret("ticket_secret").await?;
    let now = SpinRedis.now().await?;
    let rebuilt = rebuild::rebuild(&SpinRedis, &SpinLedger::open_for_batch().await, id, &secret, now).await?;
    let detail = match rebuilt {
        RebuildOutcome::Done { .. } => return Ok(Response::json(200, &rebuilt)),
        RebuildOutcome::NotFound => return Err(not_found("There is no such sale.")),
        RebuildOutcome::Draft => "The sale was never published: there is nothing to rebuild.",
        RebuildOutcome::Open => "The sale is open: pause it first.",
        RebuildOutcome::Queued => "Orders are still in the queue: wait until they are written, and try again.",
        RebuildOutcome::SkuLost => "An order was paid whose SKU the ledger lost: put the SKU back first.",
        RebuildOutcome::Fenced => "Another rebuild is at work.",
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}

fn missing_gate() -> ApiError {
    not_found("The sale has no gate in Redis: publish it.")
}
