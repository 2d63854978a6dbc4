//! Commands about an order's payment: cancel, extend, start a payment, request a refund.
//!
//! The ledger decides by its own clock, and Redis is not asked. Its copy is brought in line after the response; if that
//! fails, the sweeper does it.

use domain::{
    http::problem::{Code, Problem},
    ids::OrderNo,
    order::{Order, OrderStatus},
};
use orders::{
    ledger::{
        order_changes::{self, Canceller},
        order_rows::{self, OrderRow},
    },
    sync::sync_order,
};
use sale::ledger::activities;
use stores::{
    keys::Keys,
    ledger::clock::Clock,
    ports::{Redis, Sql, StoreError},
};

use crate::{
    ledger::{callback_rows, partial_refunds, refund_parts, sessions},
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

impl CommandOutcome {
    /// Returns the order after a command, or `state_conflict`. `goal` completes "it cannot be …".
    pub fn order_or_conflict(&self, goal: &str) -> Result<&Order, Problem> {
        let detail = match self {
            Self::Done(order) => return Ok(order),
            Self::Conflict(order) => format!("The order is {}: it cannot be {goal}.", order.status.as_str()),
            // The caller has found the order in Redis, but the order writer has not written it to the ledger yet.
            Self::NotFound => {
                format!("The order is still queued: it cannot be {goal} yet. Poll until it is pending.")
            }
        };
        Err(Problem::new(Code::StateConflict, detail))
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Decided {
    /// Its result.
    pub outcome: CommandOutcome,
    /// The row that it changed.
    pub changed: Option<OrderRow>,
}

impl Decided {
    /// A command that changed nothing.
    pub(crate) fn unchanged(outcome: CommandOutcome) -> Self {
        Self { outcome, changed: None }
    }

    /// Brings Redis in line. If that fails, the sweeper does it.
    pub async fn sync<R: Redis>(&self, redis: &R) {
        if let Some(row) = &self.changed {
            let _ = sync_order(redis, row).await;
        }
    }
}

/// Cancels an order that waits for payment. After its time to pay it is a conflict: the order shows as expired.
///
/// # Errors
/// `LedgerUnavailable`: the order may or may not be cancelled.
pub async fn cancel<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    by: Canceller,
    now: impl Into<Clock>,
) -> Result<Decided, StoreError> {
    let now = now.into();
    let changed = order_changes::cancel(sql, order_no, by, now).await?;
    compare(sql, order_no, changed, &[OrderStatus::Cancelled], now).await
}

/// Gives the buyer of an order `ms` milliseconds more to pay it. After its time to pay it is a conflict.
///
/// # Errors
/// `LedgerUnavailable`: the deadline may or may not have moved.
pub async fn extend<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    ms: i64,
    now: impl Into<Clock>,
) -> Result<Decided, StoreError> {
    let now = now.into();
    let changed = order_changes::extend(sql, order_no, ms, now).await?;
    compare(sql, order_no, changed, &[], now).await
}

/// Loads an order: `Done` if it has one of the `target` statuses. If its session has ended, it has no `checkout_url`.
pub async fn load_outcome<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    target: &[OrderStatus],
    now: impl Into<Clock>,
) -> Result<CommandOutcome, StoreError> {
    Ok(match order_rows::load_effective(sql, order_no, now).await?.map(Box::new) {
        Some(order) if target.contains(&order.status) => CommandOutcome::Done(order),
        Some(order) => CommandOutcome::Conflict(order),
        None => CommandOutcome::NotFound,
    })
}

/// Copies an order's `checkout_url` and `pay_by` to Redis. `session_number` counts the order's sessions from 1; it is 0 if
/// the ledger has the URL only.
pub async fn copy_session<R: Redis>(redis: &R, order: &Order, session_number: i64) -> Result<(), StoreError> {
    let (url, pay_by) = (order.checkout_url.as_deref(), order.pay_by.unwrap_or_default().0.to_string());
    let version = session_version(session_number, url.is_none()).to_string();
    let key = Keys::of(order.activity()).order(order.order_no.ulid());
    let args = vec![url.unwrap_or_default().into(), pay_by.into(), version.into()];
    SET_SESSION.run(redis, vec![key], args).await.map(|_| ())
}

/// Closes a session that ended before it was paid: the buyer is no longer sent to it, and the order can get another one
/// while it has time. Then Redis gets the session that the ledger has, also in a repeated call.
///
/// # Errors
/// Any [`StoreError`]; after one of Redis the session is closed.
pub async fn session_ended<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    session_id: &str,
) -> Result<(), StoreError> {
    // For a session that is not saved yet, see `sessions::save`.
    sessions::close(sql, order_no, session_id).await?;
    // In this order: a session that is opened in between has a higher version than what is copied.
    let Some(latest) = sessions::load_latest(sql, order_no).await? else { return Ok(()) };
    match order_rows::load(sql, order_no).await? {
        Some(row) => copy_session(redis, &row.order, latest.session_number).await,
        None => Ok(()),
    }
}

/// Version of an order's session: even while session `number` is open, odd once it ended. `lua/set_session.lua` ignores
/// a lower one.
fn session_version(number: i64, ended: bool) -> i64 {
    2 * number + i64::from(ended)
}

/// Requests a refund of a paid order, if the buyer of this activity may still do so. The refund is recorded in the ledger,
/// and the sweeper sends it until the provider confirms (E4). That of an order that cost nothing is done here.
///
/// # Errors
/// `LedgerUnavailable`: the refund may or may not be requested.
pub async fn request_refund<S: Sql>(sql: &S, order_no: &OrderNo, now: impl Into<Clock>) -> Result<Decided, StoreError> {
    let now = now.into();
    let activity = activities::load(sql, order_no.activity()).await?;
    let window_ms = match activity.map(|activity| activity.spec.refund_window_seconds) {
        Some(None) => callback_rows::EVER,
        Some(Some(seconds)) if seconds > 0 => seconds * 1_000,
        // Not even at the moment of the payment; nor while the activity is erased, since its time is not known.
        Some(Some(_)) | None => -callback_rows::EVER,
    };
    let changed = match callback_rows::request_refund(sql, order_no, window_ms, now).await? {
        // If it fails, the next sweep does it.
        Some(row) if row.order.money.amount == 0 => {
            callback_rows::mark_refunded(sql, order_no, row.updated_at).await?.or(Some(row))
        }
        changed => changed,
    };
    compare(sql, order_no, changed, &[OrderStatus::Refunding, OrderStatus::Refunded], now).await
}

/// What became of an operator's refund.
#[derive(Debug)]
pub enum RefundDecided {
    /// The order is refunded, or a part of it; or was, by the same request.
    Decided(Box<Decided>),
    /// The request was made before, with this amount.
    OtherAmount(i64),
    /// The order is paid, and as much can be given back.
    AtMost(i64),
}

/// Refunds an order for an operator: all that is left of its payment, or a part, whose rest stays paid. `part` is the amount and
/// the id of the request, so that a repeated one changes nothing. A part of all that is left refunds the order.
///
/// # Errors
/// `LedgerUnavailable`: the refund may or may not be requested. The same request says which.
pub async fn refund_by_operator<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    part: Option<(i64, &str)>,
    now: impl Into<Clock>,
) -> Result<RefundDecided, StoreError> {
    let now = now.into();
    let mut target = vec![OrderStatus::Refunding, OrderStatus::Refunded];
    if let Some((amount, id)) = part {
        let is_new = refund_parts::request(sql, id, order_no, amount, now).await?;
        match refund_parts::load_amount(sql, id).await? {
            Some(requested) if requested != amount => return Ok(RefundDecided::OtherAmount(requested)),
            Some(_) => {
                target.push(OrderStatus::Paid);
                let changed = if is_new { order_rows::load(sql, order_no).await? } else { None };
                return Ok(RefundDecided::Decided(Box::new(compare(sql, order_no, changed, &target, now).await?)));
            }
            None => {}
        }
    }
    let amount = part.map(|(amount, _)| amount);
    let changed = match refund_parts::request_rest(sql, order_no, amount, now).await? {
        // If it fails, the next sweep does it.
        Some(row) if row.order.money.amount == 0 => {
            callback_rows::mark_refunded(sql, order_no, row.updated_at).await?.or(Some(row))
        }
        changed => changed,
    };
    let decided = compare(sql, order_no, changed, &target, now).await?;
    match &decided.outcome {
        CommandOutcome::Conflict(order) if order.status == OrderStatus::Paid => {
            let returned = partial_refunds::load_returned(sql, order_no).await?;
            Ok(RefundDecided::AtMost(order.money.amount - returned))
        }
        _ => Ok(RefundDecided::Decided(Box::new(decided))),
    }
}

/// Returns what a command did. If it `changed` no row, the order may have one of the `target` statuses already.
pub(crate) async fn compare<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    changed: Option<OrderRow>,
    target: &[OrderStatus],
    now: Clock,
) -> Result<Decided, StoreError> {
    let outcome = match &changed {
        Some(row) => CommandOutcome::Done(Box::new(row.order.clone())),
        None => load_outcome(sql, order_no, target, now).await?,
    };
    Ok(Decided { outcome, changed })
}
