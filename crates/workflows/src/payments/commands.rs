//! What buyers do about money: cancel, start to pay, ask for it back. The ledger moves, then Redis follows; what lies
//! between is found by the sweeper.

use domain::{
    ids::OrderNo,
    order::{Order, Status},
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
    settle::{Settled, apply_transitions},
};

/// What came of a buyer's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The order moved, or was there already.
    Done(Box<Order>),
    /// The order is in a state that does not allow it.
    Conflict(Box<Order>),
    /// The ledger does not know the order (yet).
    Unknown,
}

/// Tells Redis what became of orders of one activity, and notes that it knows. Answers how many it knows of: while the
/// sale is being rebuilt, none.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn settle<R: Redis, S: Sql>(redis: &R, sql: &S, entries: &[OrderRow]) -> Result<usize, StoreError> {
    let Some(first) = entries.first() else { return Ok(0) };
    let moves: Vec<_> = entries.iter().map(|entry| entry.to_transition(String::new())).collect();
    let settled = apply_transitions(redis, first.order.activity(), &moves).await?;
    // What was read in another epoch, or during a rebuild, is read again by the sweeper.
    let seen = entries.iter().zip(settled).filter(|(_, settled)| *settled != Settled::Fenced);
    let seen: Vec<_> = seen.map(|(entry, _)| entry.clone()).collect();
    orders::mark_settled(sql, &seen).await?;
    Ok(seen.len())
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
        Some(entry) => {
            // The ledger has decided: a failure from here on is finished by the sweeper, not shown to the buyer.
            let _ = settle(redis, sql, std::slice::from_ref(&entry)).await;
            Ok(CommandOutcome::Done(Box::new(entry.order)))
        }
        None => after(sql, order_no, Status::Cancelled).await,
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
    let Some(entry) = orders::start_payment(sql, order_no, checkout_url, now).await? else {
        return stands(sql, order_no, now).await;
    };
    let pay_by = entry.order.pay_by.unwrap_or_default().0.to_string();
    let url = entry.order.checkout_url.as_deref();
    let sessions = 2 * attempt + i64::from(url.is_none());
    set_session(redis, order_no, url.unwrap_or_default(), pay_by, sessions).await?;
    Ok(CommandOutcome::Done(Box::new(entry.order)))
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
    session: &str,
) -> Result<(), StoreError> {
    let last = sessions::last(sql, order_no).await?;
    // Of an earlier session there is nothing to be said any more; of one that is not kept yet, see `sessions::keep`.
    let Some(last) = last.filter(|last| last.open && last.session == session) else { return Ok(()) };
    set_session(redis, order_no, "", String::new(), 2 * last.attempt + 1).await?;
    sessions::close(sql, order_no, session).await
}

/// Tells Redis where an order is paid (`lua/set_session.lua`).
async fn set_session<R: Redis>(
    redis: &R,
    order_no: &OrderNo,
    url: &str,
    pay_by: String,
    sessions: i64,
) -> Result<(), StoreError> {
    let key = Keys::of(order_no.activity()).order(order_no.ulid());
    SET_SESSION.run(redis, vec![key], vec![url.into(), pay_by.into(), sessions.to_string().into()]).await.map(|_| ())
}

/// How an order stands that cannot be paid (any more).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn stands<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<CommandOutcome, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) => Ok(CommandOutcome::Conflict(Box::new(entry.order.seen_at(now)))),
        None => Ok(CommandOutcome::Unknown),
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
        Some(entry) => {
            let _ = settle(redis, sql, std::slice::from_ref(&entry)).await;
            Ok(CommandOutcome::Done(Box::new(entry.order)))
        }
        None => match orders::load(sql, order_no).await? {
            Some(entry) if matches!(entry.order.status, Status::Refunding | Status::Refunded) => {
                Ok(CommandOutcome::Done(Box::new(entry.order)))
            }
            Some(entry) => Ok(CommandOutcome::Conflict(Box::new(entry.order))),
            None => Ok(CommandOutcome::Unknown),
        },
    }
}

/// The order as it is, after a move that this call did not make: fine if it is where it should be.
async fn after<S: Sql>(sql: &S, order_no: &OrderNo, wanted: Status) -> Result<CommandOutcome, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) if entry.order.status == wanted => Ok(CommandOutcome::Done(Box::new(entry.order))),
        Some(entry) => Ok(CommandOutcome::Conflict(Box::new(entry.order))),
        None => Ok(CommandOutcome::Unknown),
    }
}
