//! Reads the gate and the stock of an activity (`lua/read_gate.lua`).

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

/// Stock of a SKU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkuStock {
    /// The SKU.
    pub sku: SkuId,
    /// Units left; -1 if unlimited, `None` if the stock is not loaded yet.
    pub left: Option<i64>,
    /// Units on sale; negative if unlimited.
    pub total: i64,
}

/// Gate and stock, read at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSnapshot {
    /// Redis time of the read.
    pub now: Millis,
    /// The gate.
    pub gate: Gate,
    /// Approximate number of users who asked for a challenge or a ticket (HyperLogLog).
    pub visitors: i64,
    /// The activity version that the gate was loaded from.
    pub version: i64,
    /// Stock per SKU.
    pub skus: Vec<SkuStock>,
}

impl GateSnapshot {
    /// Units on sale over all SKUs; -1 if one of them is unlimited.
    #[must_use]
    pub fn total_units(&self) -> i64 {
        if self.skus.iter().any(|sku| sku.total < 0) { -1 } else { self.skus.iter().map(|sku| sku.total).sum() }
    }
}

/// Reads the gate; `None` if the activity has none.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused` if Redis gave no reply; `Malformed` if the gate's fields cannot be parsed.
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
