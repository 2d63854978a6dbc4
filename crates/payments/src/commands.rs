//! Payment commands of buyers: cancel, start a payment, request a refund.
//!
//! The ledger's row changes first, then the order is synced in Redis (except in [`session_ended`]). If a command stops
//! in between, the sweeper syncs the order, and repeating the call completes it.

use domain::{
    ids::OrderNo,
    order::{Order, OrderStatus},
    time::Millis,
};
use orders::{
    ledger::{
        order_changes,
        order_rows::{self, OrderRow},
    },
    sync::sync_order,
};
use sale::ledger::activities;
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
};

use crate::{
    ledger::{callback_rows, sessions},
    scripts::SET_SESSION,
};

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The order after the change, or unchanged if the change was made before.
    Done(Box<Order>),
    /// The order's status does not allow the command.
    Conflict(Box<Order>),
    /// The ledger does not have the order (yet).
    NotFound,
}

/// Cancels an order that waits for payment. After its time to pay it is a conflict: the order shows as expired.
///
/// # Errors
/// `LedgerUnavailable`: the order may or may not be cancelled. Redis errors are not returned, because the order is
/// cancelled by then; the sweeper syncs it.
pub async fn cancel<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    let changed = order_changes::cancel(sql, order_no, now).await?;
    sync_or_compare(redis, sql, order_no, changed, &[OrderStatus::Cancelled], now).await
}

/// Copies the URL of an order's open session and its `pay_by` from the ledger to Redis. `session_number` counts the order's
/// sessions from 1; it is 0 if the ledger has the URL only. If the session has ended, the returned order has no
/// `checkout_url`. An order that cannot be paid (any more) is a conflict.
pub async fn show_session<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    session_number: i64,
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    let Some(row) = order_rows::load(sql, order_no).await? else { return Ok(CommandOutcome::NotFound) };
    let order = row.order.effective_at(now);
    if order.status != OrderStatus::PendingPayment {
        return Ok(CommandOutcome::Conflict(Box::new(order)));
    }
    copy_session(redis, &order, session_number).await?;
    Ok(CommandOutcome::Done(Box::new(order)))
}

/// Copies an order's `checkout_url` and `pay_by` to Redis. See [`show_session`] for `session_number`.
pub async fn copy_session<R: Redis>(redis: &R, order: &Order, session_number: i64) -> Result<(), StoreError> {
    let (url, pay_by) = (order.checkout_url.as_deref(), order.pay_by.unwrap_or_default().0.to_string());
    let version = session_version(session_number, url.is_none());
    set_session(redis, &order.order_no, url.unwrap_or_default(), pay_by, version).await
}

/// Closes a session that ended before it was paid: the buyer is no longer sent to it, and the order can get another one
/// while it has time. Unlike the other commands, this one updates Redis first: once the session's row in the ledger is
/// closed, a repeated call does nothing.
pub async fn session_ended<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    session_id: &str,
) -> Result<(), StoreError> {
    // An earlier session needs no change. For a session that is not saved yet, see `sessions::save`.
    let latest = sessions::load_latest(sql, order_no, Some(session_id)).await?;
    let Some(latest) = latest.filter(|latest| latest.open) else { return Ok(()) };
    set_session(redis, order_no, "", String::new(), session_version(latest.session_number, true)).await?;
    sessions::close(sql, order_no, session_id).await
}

/// Version of an order's session: even while session `number` is open, odd once it ended. `lua/set_session.lua` ignores
/// a lower one.
fn session_version(number: i64, ended: bool) -> i64 {
    2 * number + i64::from(ended)
}

/// Stores in Redis where the order is paid (`lua/set_session.lua`).
async fn set_session<R: Redis>(
    redis: &R,
    order_no: &OrderNo,
    url: &str,
    pay_by: String,
    session_version: i64,
) -> Result<(), StoreError> {
    let key = Keys::of(order_no.activity()).order(order_no.ulid());
    SET_SESSION
        .run(redis, vec![key], vec![url.into(), pay_by.into(), session_version.to_string().into()])
        .await
        .map(|_| ())
}

/// Returns the current order as a conflict, for an order that cannot be paid (any more).
pub async fn not_payable<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<CommandOutcome, StoreError> {
    match order_rows::load(sql, order_no).await? {
        Some(row) => Ok(CommandOutcome::Conflict(Box::new(row.order.effective_at(now)))),
        None => Ok(CommandOutcome::NotFound),
    }
}

/// Requests a refund of a paid order, if the buyer of this activity may still do so. The refund is recorded in the ledger,
/// and the sweeper sends it until the provider confirms (E4).
///
/// # Errors
/// `LedgerUnavailable`: the refund may or may not be requested. Redis errors are not returned; the sweeper syncs the
/// order.
pub async fn request_refund<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    let activity = activities::load(sql, order_no.activity()).await?;
    let paid_since = match activity.map(|activity| activity.spec.refund_window_seconds) {
        Some(None) => callback_rows::EVER,
        Some(Some(seconds)) if seconds > 0 => now.plus(-seconds * 1_000),
        // Not even at the moment of the payment; nor while the activity is erased, since its time is not known.
        Some(Some(_)) | None => Millis(i64::MAX),
    };
    let changed = callback_rows::request_refund(sql, order_no, paid_since, now).await?;
    sync_or_compare(redis, sql, order_no, changed, &[OrderStatus::Refunding, OrderStatus::Refunded], now).await
}

/// Syncs the row that a command `changed`. If it changed none, loads the order: `Done` if it already has one of the
/// `target` statuses.
async fn sync_or_compare<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    changed: Option<OrderRow>,
    target: &[OrderStatus],
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    if let Some(row) = changed {
        // The ledger has decided. If Redis fails from here on, the sweeper syncs the order; the response to the buyer
        // has the new status.
        let _ = sync_order(redis, &row).await;
        return Ok(CommandOutcome::Done(Box::new(row.order)));
    }
    match order_rows::load(sql, order_no).await? {
        Some(row) if target.contains(&row.order.status) => Ok(CommandOutcome::Done(Box::new(row.order))),
        Some(row) => Ok(CommandOutcome::Conflict(Box::new(row.order.effective_at(now)))),
        None => Ok(CommandOutcome::NotFound),
    }
}
