//! Puts orders of the ledger back into Redis (`lua/restore.lua`).

use domain::{ids::ActivityId, order::OrderStatus};

use crate::{
    hot::winners::bit_number,
    keys::Keys,
    ledger::orders::OrderRow,
    ports::{Redis, RedisArg, StoreError},
    script::RESTORE,
    settle::CLOSED_ORDER_TTL_SECONDS,
};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    let (mode, after) = match source {
        Source::Rebuild { after } => ("rebuild", after),
        Source::Lost => ("lost", ""),
    };
    let keys = Keys::of(activity);
    let mut script_keys: Vec<_> = ["gate", "orders", "winners", "stats", "index"].map(|name| keys.named(name)).into();
    let mut args: Vec<RedisArg> = vec![
        keys.prefix().into(),
        CLOSED_ORDER_TTL_SECONDS.to_string().into(),
        epoch.to_string().into(),
        mode.into(),
        after.into(),
        rows.last().map(|row| row.order.order_no.to_string()).unwrap_or_default().into(),
    ];
    for row in rows {
        let order = &row.order;
        let ulid = order.order_no.ulid();
        script_keys.push(keys.order(ulid));
        args.push(bit_number(ulid).to_string().into());
        debug_assert!(order.status != OrderStatus::Queued);
        args.push(order.status.as_str().into());
        args.push(if row.live { "1".into() } else { "0".into() });
        args.push(order.user.as_str().into());
        args.push(order.sku.as_str().into());
        for number in [order.quantity, order.money.amount] {
            args.push(number.to_string().into());
        }
        args.push(order.money.currency.as_str().into());
        for time in [Some(order.created_at), order.pay_by, order.paid_at] {
            args.push(time.unwrap_or_default().0.to_string().into());
        }
        args.push(order.reason.clone().unwrap_or_default().into());
        args.push(order.checkout_url.clone().unwrap_or_default().into());
    }
    let mut reply = RESTORE.run(redis, script_keys, args).await?;
    let outcome = match reply.text()?.as_str() {
        "restored" => RestoreOutcome::Restored,
        "elsewhere" => RestoreOutcome::Elsewhere,
        "done" => RestoreOutcome::Done,
        _ => RestoreOutcome::Fenced,
    };
    Ok(RestoreReply { outcome, last: reply.text()?, restored: reply.int()? })
}
