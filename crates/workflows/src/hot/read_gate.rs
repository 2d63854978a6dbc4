//! The gate and what is left, for readers (`lua/read_gate.lua`).

use domain::{
    activity::ActivityState,
    ids::{ActivityId, SkuId},
    time::Millis,
};

use super::reserve::Gate;
use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    script::READ_GATE,
};

/// What is left of a SKU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkuStock {
    /// The SKU.
    pub sku: SkuId,
    /// Units left; -1 is unlimited, `None` is not ready.
    pub left: Option<i64>,
    /// Units on sale.
    pub total: i64,
}

/// The gate as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSnapshot {
    /// Redis's clock when it was read.
    pub now: Millis,
    /// The gate's facts.
    pub gate: Gate,
    /// About how many users hold a ticket.
    pub visitors: i64,
    /// The version of the description that the gate was made from.
    pub version: i64,
    /// What is left.
    pub skus: Vec<SkuStock>,
}

impl GateSnapshot {
    /// Units on sale over all SKUs; -1 where there is no end of them.
    #[must_use]
    pub fn total_units(&self) -> i64 {
        if self.skus.iter().any(|sku| sku.total < 0) { -1 } else { self.skus.iter().map(|sku| sku.total).sum() }
    }
}

/// Looks at the gate; `None` where there is none.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn read_gate<R: Redis>(redis: &R, activity: &ActivityId) -> Result<Option<GateSnapshot>, StoreError> {
    let keys = Keys::of(activity);
    let mut reply = READ_GATE
        .run(redis, vec![keys.named("gate"), keys.named("visitors")], vec![keys.prefix().as_bytes().to_vec()])
        .await?;
    let now = Millis(reply.int()?);
    if reply.remaining() == 0 {
        return Ok(None);
    }
    let malformed = |what: &str| StoreError::Malformed(format!("the {what} of the gate of {activity}"));
    let state = ActivityState::parse(&reply.text()?).ok_or_else(|| malformed("state"))?;
    let (starts_at, ends_at) = (Millis(reply.int()?), Millis(reply.int()?));
    let start_key = reply.text()?;
    let visitors = reply.int()?;
    let shed = reply.text()? == "1";
    let version = reply.int()?;
    let mut skus = Vec::new();
    while reply.remaining() > 0 {
        let sku = SkuId::parse(&reply.text()?).map_err(|_| malformed("SKU"))?;
        let left = reply.text()?;
        skus.push(SkuStock { sku, left: left.parse().ok(), total: reply.int()? });
    }
    Ok(Some(GateSnapshot { now, gate: Gate { state, starts_at, ends_at, shed, start_key }, visitors, version, skus }))
}
