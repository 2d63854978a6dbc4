//! The gate and what is left, for readers (`lua/glance.lua`).

use domain::{
    activity::State,
    ids::{ActivityId, SkuId},
    time::Millis,
};

use super::reserve::GateFacts;
use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    script::GLANCE,
};

/// What is left of a SKU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The SKU.
    pub sku: SkuId,
    /// Units left; -1 is unlimited, `None` is not ready.
    pub left: Option<i64>,
    /// Units on sale.
    pub total: i64,
}

/// The gate as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// Redis's clock when it was read.
    pub now: Millis,
    /// The gate's facts.
    pub gate: GateFacts,
    /// About how many users hold a ticket.
    pub seekers: i64,
    /// The version of the description that the gate was made from.
    pub version: i64,
    /// What is left.
    pub skus: Vec<Left>,
}

impl Glance {
    /// Units on sale over all SKUs; -1 where there is no end of them.
    #[must_use]
    pub fn units(&self) -> i64 {
        if self.skus.iter().any(|sku| sku.total < 0) { -1 } else { self.skus.iter().map(|sku| sku.total).sum() }
    }
}

/// Looks at the gate; `None` where there is none.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn glance<R: Redis>(redis: &R, activity: &ActivityId) -> Result<Option<Glance>, StoreError> {
    let keys = Keys::of(activity);
    let mut reply = GLANCE
        .run(redis, vec![keys.named("gate"), keys.named("seekers")], vec![keys.prefix().as_bytes().to_vec()])
        .await?;
    let now = Millis(reply.int()?);
    if reply.left() == 0 {
        return Ok(None);
    }
    let unreadable = |what: &str| StoreError::Unreadable(format!("the {what} of the gate of {activity}"));
    let state = State::parse(&reply.text()?).ok_or_else(|| unreadable("state"))?;
    let (starts_at, ends_at) = (Millis(reply.int()?), Millis(reply.int()?));
    let start_key = reply.text()?;
    let seekers = reply.int()?;
    let shed = reply.text()? == "1";
    let version = reply.int()?;
    let mut skus = Vec::new();
    while reply.left() > 0 {
        let sku = SkuId::parse(&reply.text()?).map_err(|_| unreadable("SKU"))?;
        let left = reply.text()?;
        skus.push(Left { sku, left: left.parse().ok(), total: reply.int()? });
    }
    Ok(Some(Glance { now, gate: GateFacts { state, starts_at, ends_at, shed, start_key }, seekers, version, skus }))
}
