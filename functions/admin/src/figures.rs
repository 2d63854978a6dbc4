//! Live figures and the audit of a sale.

use serde_json::json;
use stampede_domain::ids::ActivityId;
use stampede_platform::{
    http::{Answer, Failure, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use stampede_sale::{audit, ledger::activities};

/// `GET …/stats`: Redis at one instant, and the ledger's orders by status.
pub async fn stats(id: &ActivityId) -> Result<Answer, Failure> {
    let figures = audit::figures(&SpinRedis, id).await?.ok_or_else(unpublished)?;
    let orders = audit::orders_by_status(&SpinLedger::open().await, id).await?;
    let mut document = json!(figures);
    document["orders"] = json!(orders);
    Ok(Answer::json(200, &document))
}

/// `GET …/audit`: the invariants.
pub async fn audit(id: &ActivityId) -> Result<Answer, Failure> {
    let ledger = SpinLedger::open().await;
    let activity = activities::load(&ledger, id).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let audit = audit::audit(&SpinRedis, &ledger, id, activity.spec.per_user).await?.ok_or_else(unpublished)?;
    Ok(Answer::json(200, &audit))
}

fn unpublished() -> Failure {
    not_found("The sale has no gate in Redis: publish it.")
}
