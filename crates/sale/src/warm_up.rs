//! Warms up an activity (C9): updates gate and stock in Redis from the ledger (`lua/warm_up.lua`).
//!
//! Idempotent, and safe while the activity is open. A gate of this epoch must exist; only a rebuild creates one.
//!
//! Errors: `RedisUnavailable` if the update may or may not have happened, `RedisRefused` if Redis answered with an
//! error; the call can be repeated after both. `Malformed` if there is no ticket secret.

use domain::{
    activity::{Limit, Sku},
    gate,
    ids::{ActivityId, SkuId},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use stores::{
    keys::{Keys, WRITER_GROUP},
    ports::{Redis, StoreError},
    reply::unexpected,
};

use crate::{
    ledger::activities::{Activity, RETENTION_AFTER_END_MS},
    scripts::{LOWER_TOTALS, WARM_UP},
};

/// Result of a warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpOutcome {
    /// Redis matches the ledger.
    Done,
    /// Redis has a newer version or epoch, or, with [`Mode::IfOlder`], this version already. Nothing was changed.
    Stale,
    /// There is no complete gate of this epoch: a rebuild has to create it. Nothing was changed.
    NoGate,
}

/// Result of [`lower_totals`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LowerOutcome {
    /// Redis has the lowered totals.
    Done,
    /// Redis has this version, or a later one, or a later epoch. Nothing was changed.
    Stale,
    /// There is no complete gate of this epoch. Nothing was changed.
    NoGate,
    /// The new total of this SKU is below what is held and sold. Nothing was changed.
    BelowHeldAndSold(SkuId),
}

/// Which gates a warm-up may update, besides those of an older version.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Also a gate of the same version.
    Replace,
    /// No others. The sweeper may have read the row in the middle of an operator's change: it leaves a gate of the same
    /// version to the request that makes the change.
    IfOlder,
    /// Also a gate of the same version, and one that an unfinished rebuild has created.
    Rebuild,
}

/// Lowers totals in Redis, before the ledger gets them as `version`, and changes nothing else in the gate. They must not
/// fall below what is held and sold.
pub async fn lower_totals<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    version: i64,
    epoch: i64,
    totals: &[(SkuId, i64)],
) -> Result<LowerOutcome, StoreError> {
    let keys = Keys::of(activity);
    let totals: Vec<_> = totals.iter().map(|(sku, total)| json!({ "sku": sku, "total": total })).collect();
    let options = json!({ "version": version, "epoch": epoch, "totals": totals });
    let script_keys = keys.all(["gate", "orders", "stats"]);
    let mut reply = LOWER_TOTALS.run_with(redis, script_keys, &options).await?;
    Ok(match reply.text()?.as_str() {
        "done" => LowerOutcome::Done,
        "stale" => LowerOutcome::Stale,
        "no_gate" => LowerOutcome::NoGate,
        "below" => LowerOutcome::BelowHeldAndSold(reply.parse()?),
        word => return Err(unexpected(word)),
    })
}

/// Updates the gate of an activity to its row in the ledger.
pub async fn warm_up<R: Redis>(
    redis: &R,
    activity: &Activity,
    ticket_secret: &str,
    mode: Mode,
) -> Result<WarmUpOutcome, StoreError> {
    let keys = Keys::of(&activity.id);
    let spec = &activity.spec;
    let start_key = gate::start_key(ticket_secret, &activity.id, &activity.nonce)
        .ok_or_else(|| StoreError::Malformed("there is no ticket secret to make a start key from".to_owned()))?;
    let [limit_user, limit_ip, limit_all] = [spec.limits.user(), spec.limits.ip(), spec.limits.all()].map(limit_text);
    let gate = json!({
        "state": activity.state,
        "starts_at": spec.starts_at.0,
        "ends_at": spec.ends_at.0,
        "start_key": start_key,
        "announcement": activity.announcement.to_text(),
        "max_wait_ms": spec.max_wait_seconds * 1000,
        "per_user": spec.per_user,
        "pay_timeout_ms": spec.pay_timeout_seconds * 1000,
        "offer_ms": spec.offer_seconds() * 1000,
        "limit_user": limit_user,
        "limit_ip": limit_ip,
        "limit_all": limit_all,
    });
    let terms = |Sku { sku, total, price, currency, .. }: &Sku| {
        let line = spec.line.max_units(*total);
        json!({ "sku": sku, "total": total, "price": price, "currency": currency, "line": line })
    };
    let options = json!({
        "version": activity.version,
        "group": WRITER_GROUP,
        "ends_at": spec.ends_at.0,
        "retention_ms": RETENTION_AFTER_END_MS,
        "epoch": activity.epoch,
        "mode": mode,
        "gate": gate,
        "skus": spec.skus.iter().map(terms).collect::<Vec<_>>(),
    });
    let mut script_keys = keys.all(["gate", "orders", "stats", "index", "holders", "queued", "entries"]);
    script_keys.extend(spec.skus.iter().map(|sku| keys.line(&sku.sku)));
    WARM_UP.run_with(redis, script_keys, &options).await?.parse()
}

/// A rate limit as the script reads it: `count:milliseconds`, empty for none.
fn limit_text(limit: Option<Limit>) -> String {
    limit.map(|limit| format!("{}:{}", limit.count, limit.seconds * 1000)).unwrap_or_default()
}
