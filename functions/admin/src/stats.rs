//! Live figures and the audit of a sale.

use domain::{
    ids::ActivityId,
    problem::{Code, Problem},
};
use platform::{
    config,
    http::{Answer, Failure, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde_json::json;
use workflows::{
    ledger::activities,
    operator::audit,
    recovery::rebuild::{self, Rebuilt},
};

/// `GET …/stats`: Redis at one instant, and the ledger's orders by status.
pub async fn stats(id: &ActivityId) -> Result<Answer, Failure> {
    let ledger = SpinLedger::open_for_work().await;
    let Some(figures) = audit::stats(&SpinRedis, id).await? else {
        let known = activities::load(&ledger, id).await?;
        return Err(known.map_or_else(|| not_found("There is no such sale."), |_| unpublished()));
    };
    let orders = audit::orders_by_status(&ledger, id).await?;
    let mut document = json!(figures);
    document["orders"] = json!(orders);
    Ok(Answer::json(200, &document))
}

/// `GET …/audit`: the invariants.
pub async fn audit(id: &ActivityId) -> Result<Answer, Failure> {
    let ledger = SpinLedger::open_for_work().await;
    let activity = activities::load(&ledger, id).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let audit = audit::audit(&SpinRedis, &ledger, id, activity.spec.per_user).await?.ok_or_else(unpublished)?;
    Ok(Answer::json(200, &audit))
}

/// `POST …/rebuild`: Redis anew from the ledger, while the sale is paused or closed (G5).
pub async fn rebuild(id: &ActivityId) -> Result<Answer, Failure> {
    let secret = config::secret("ticket_secret").await?;
    let now = SpinRedis.now().await?;
    let rebuilt = rebuild::rebuild(&SpinRedis, &SpinLedger::open_for_work().await, id, &secret, now).await?;
    let detail = match rebuilt {
        Rebuilt::Done { .. } => return Ok(Answer::json(200, &rebuilt)),
        Rebuilt::Unknown => return Err(not_found("There is no such sale.")),
        Rebuilt::Draft => "The sale was never published: there is nothing to rebuild.",
        Rebuilt::Open => "The sale is open: pause it first.",
        Rebuilt::Queued => "Orders are still in the queue: wait until they are written, and try again.",
        Rebuilt::SkuLost => "An order was paid whose SKU the ledger lost: put the SKU back first.",
        Rebuilt::Fenced => "Another rebuild is at work.",
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}

fn unpublished() -> Failure {
    not_found("The sale has no gate in Redis: publish it.")
}
