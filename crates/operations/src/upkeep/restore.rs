//! Puts orders of the ledger back into Redis (`lua/restore.lua`).

use domain::{
    ids::{ActivityId, OrderNo},
    order::OrderStatus,
};
use orders::{
    ledger::order_rows::OrderRow,
    order_record::{OrderFields, OrderState},
    sync::CLOSED_ORDER_TTL_SECONDS,
};
use serde::{Deserialize, Serialize};
use stores::{
    keys::Keys,
    ports::{Redis, StoreError},
};

use crate::scripts::RESTORE;

/// Who restores orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source<'a> {
    /// A rebuild, which restores every order in pages.
    Rebuild {
        /// Number of the last order of the page before; empty for the first page.
        after: &'a str,
    },
    /// A sweep: Redis has lost these orders and kept the rest. Orders that Redis has again are skipped.
    Lost,
}

/// Result of [`restore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RestoreOutcome {
    /// The orders are in Redis.
    Restored,
    /// Another request has restored this page: nothing was changed.
    Elsewhere,
    /// The rebuild has ended.
    Done,
    /// The gate has another epoch, or is being rebuilt while a sweep restores.
    Fenced,
}

/// What Redis has after [`restore`].
pub(crate) struct RestoreReply {
    pub(crate) outcome: RestoreOutcome,
    /// Number of the last order that the rebuild has restored.
    pub(crate) last: String,
    /// Orders that the rebuild, or this call of a sweep, has restored.
    pub(crate) restored: i64,
}

#[derive(Serialize)]
struct Options<'a> {
    closed_ttl: i64,
    epoch: i64,
    is_rebuild: bool,
    after: &'a str,
    last: Option<&'a OrderNo>,
    orders: Vec<RestoredOrder<'a>>,
}

#[derive(Serialize)]
struct RestoredOrder<'a> {
    #[serde(flatten)]
    order: OrderFields<'a>,
    #[serde(flatten)]
    state: &'a OrderState,
    checkout_url: &'a str,
}

/// Restores orders of one activity, and counts their units once.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`; repeating the call completes it.
pub(crate) async fn restore<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    epoch: i64,
    source: Source<'_>,
    rows: &[OrderRow],
) -> Result<RestoreReply, StoreError> {
    let (is_rebuild, after) = match source {
        Source::Rebuild { after } => (true, after),
        Source::Lost => (false, ""),
    };
    debug_assert!(rows.iter().all(|row| row.order.status != OrderStatus::Queued));
    let keys = Keys::of(activity);
    let mut script_keys = keys.all(["gate", "orders", "stats", "index", "holders", "queued"]);
    script_keys.extend(rows.iter().map(|row| keys.order(row.order.order_no.ulid())));
    let states: Vec<_> = rows.iter().map(OrderRow::state).collect();
    let orders = rows.iter().zip(&states).map(|(row, state)| RestoredOrder {
        order: (&row.order).into(),
        state,
        checkout_url: row.order.checkout_url.as_deref().unwrap_or_default(),
    });
    let options = Options {
        closed_ttl: CLOSED_ORDER_TTL_SECONDS,
        epoch,
        is_rebuild,
        after,
        last: rows.last().map(|row| &row.order.order_no),
        orders: orders.collect(),
    };
    let mut reply = RESTORE.run_with(redis, script_keys, &options).await?;
    Ok(RestoreReply { outcome: reply.parse()?, last: reply.text()?, restored: reply.int()? })
}
