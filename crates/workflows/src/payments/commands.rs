//! What buyers do about money: cancel, start to pay, ask for it back. The ledger moves, then Redis follows; what lies
//! between is found by the sweeper.

use domain::{
    ids::OrderNo,
    order::{Order, OrderStatus},
    time::Millis,
};

use crate::{
    keys::Keys,
    ledger::{
        orders::{self, OrderRow},
        payments, sessions,
    },
    ports::{Redis, Sql, StoreError},
    script::SET_SESSION,
    settle::{SettleOutcome, apply_transitions},
};

/// What came of a buyer's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The order moved, or was there already.
    Done(Box<Order>),
    /// The order is in a state that does not allow it.
    Conflict(Box<Order>),
    /// The ledger does not know the order (yet).
    NotFound,
}

/// Tells Redis what became of orders of one activity, and notes that it knows. Answers how many it knows of: while the
/// sale is being rebuilt, none.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn settle_orders<R: Redis, S: Sql>(redis: &R, sql: &S, rows: &[OrderRow]) -> Result<usize, StoreError> {
    let Some(first_row) = rows.first() else { return Ok(0) };
    let transitions: Vec<_> = rows.iter().map(|row| row.to_transition(String::new())).collect();
    let outcomes = apply_transitions(redis, first_row.order.activity(), &transitions).await?;
    // What was read in another epoch, or during a rebuild, is read again by the sweeper.
    let settled = rows.iter().zip(outcomes).filter(|(_, outcome)| *outcome != SettleOutcome::Fenced);
    let settled_rows: Vec<_> = settled.map(|(row, _)| row.clone()).collect();
    orders::mark_settled(sql, &settled_rows).await?;
    Ok(settled_rows.len())
}

/// Cancels an order that waits for money.
///
/// # Errors
/// [`StoreError`] of the ledger. Redis's is left to the sweeper: the order is cancelled.
pub async fn cancel<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    match orders::cancel(sql, order_no, now).await? {
        Some(row) => {
            // The ledger has decided: a failure from here on is finished by the sweeper, not shown to the buyer.
            let _ = settle_orders(redis, sql, std::slice::from_ref(&row)).await;
            Ok(CommandOutcome::Done(Box::new(row.order)))
        }
        None => done_if_already(sql, order_no, OrderStatus::Cancelled).await,
    }
}

/// Starts a payment: notes where to pay in the ledger and in Redis. `attempt` counts the order's sessions; 0 for a
/// provider that keeps none. Where the session has ended meanwhile, the order has no `checkout_url`.
///
/// # Errors
/// [`StoreError`].
pub async fn start_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    checkout_url: &str,
    attempt: i64,
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    let Some(row) = orders::start_payment(sql, order_no, checkout_url, now).await? else {
        return not_payable(sql, order_no, now).await;
    };
    let pay_by = row.order.pay_by.unwrap_or_default().0.to_string();
    let url = row.order.checkout_url.as_deref();
    let session_version = 2 * attempt + i64::from(url.is_none());
    set_session(redis, order_no, url.unwrap_or_default(), pay_by, session_version).await?;
    Ok(CommandOutcome::Done(Box::new(row.order)))
}

/// A session ended before it was paid: its order can get another one while it has time, and nobody is sent to this one
/// any more. Redis hears it first: the ledger's row is what says that there is nothing left to do.
///
/// # Errors
/// [`StoreError`].
pub async fn session_ended<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    session_id: &str,
) -> Result<(), StoreError> {
    let latest = sessions::load_latest(sql, order_no).await?;
    // Of an earlier session there is nothing to be said any more; of one that is not kept yet, see `sessions::keep`.
    let Some(latest) = latest.filter(|latest| latest.open && latest.id == session_id) else { return Ok(()) };
    set_session(redis, order_no, "", String::new(), 2 * latest.attempt + 1).await?;
    sessions::close(sql, order_no, session_id).await
}

/// Tells Redis where an order is paid (`lua/set_session.lua`).
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

/// How an order stands that cannot be paid (any more).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn not_payable<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<CommandOutcome, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(row) => Ok(CommandOutcome::Conflict(Box::new(row.order.effective_at(now)))),
        None => Ok(CommandOutcome::NotFound),
    }
}

/// Asks for a refund of a paid order: durable work that the sweeper drives until the provider confirms (E4).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn request_refund<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    now: Millis,
) -> Result<CommandOutcome, StoreError> {
    match payments::request_refund(sql, order_no, now).await? {
        Some(row) => {
            let _ = settle_orders(redis, sql, std::slice::from_ref(&row)).await;
            Ok(CommandOutcome::Done(Box::new(row.order)))
        }
        None => match orders::load(sql, order_no).await? {
            Some(row) if matches!(row.order.status, OrderStatus::Refunding | OrderStatus::Refunded) => {
                Ok(CommandOutcome::Done(Box::new(row.order)))
            }
            Some(row) => Ok(CommandOutcome::Conflict(Box::new(row.order))),
            None => Ok(CommandOutcome::NotFound),
        },
    }
}

/// The order as it is, after a move that this call did not make: fine if it is where it should be.
async fn done_if_already<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    target: OrderStatus,
) -> Result<CommandOutcome, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(row) if row.order.status == target => Ok(CommandOutcome::Done(Box::new(row.order))),
        Some(row) => Ok(CommandOutcome::Conflict(Box::new(row.order))),
        None => Ok(CommandOutcome::NotFound),
    }
}
