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
pub(crate) enum Source {
    /// A rebuild, which restores every order.
    Rebuild,
    /// A sweep: Redis has lost these orders and kept the rest. Orders that hold no units, or that Redis has again, are
    /// skipped.
    Lost,
}

impl Source {
    /// The source as an argument of the script.
    fn as_str(self) -> &'static str {
        match self {
            Self::Rebuild => "rebuild",
            Self::Lost => "lost",
        }
    }
}

/// Restores orders of one activity, and counts their units once. Returns how many, or `None` if the gate does not have
/// this epoch, or does not have the phase that `source` expects.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`; repeating the call completes it.
pub(crate) async fn restore<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    epoch: i64,
    source: Source,
    rows: &[OrderRow],
) -> Result<Option<i64>, StoreError> {
    let keys = Keys::of(activity);
    let mut script_keys: Vec<_> = ["gate", "orders", "winners", "stats"].map(|name| keys.named(name)).into();
    let mut args: Vec<RedisArg> = vec![
        keys.prefix().into(),
        CLOSED_ORDER_TTL_SECONDS.to_string().into(),
        epoch.to_string().into(),
        source.as_str().into(),
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
    let count = RESTORE.run(redis, script_keys, args).await?.int()?;
    Ok((count >= 0).then_some(count))
}
