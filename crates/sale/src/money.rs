//! Cancelling, paying and refunding: the ledger moves, then Redis follows; what lies between is found by the sweeper.

use stampede_domain::{
    ids::OrderNo,
    order::{Order, Status},
    time::Millis,
    webhook::Payment,
};

use crate::{
    keys::Keys,
    ledger::{
        orders::{self, Entry},
        payments::{self, Callback},
        refunds, sessions,
    },
    ports::{Redis, Sql, StoreError},
    script::{HOLD, RETAKE},
    settle::{Settled, settle},
};

/// What came of a buyer's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
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
pub async fn bring_along<R: Redis, S: Sql>(redis: &R, sql: &S, entries: &[Entry]) -> Result<usize, StoreError> {
    let Some(first) = entries.first() else { return Ok(0) };
    let moves: Vec<_> = entries.iter().map(|entry| entry.to_move(String::new())).collect();
    let settled = settle(redis, first.order.activity(), &moves).await?;
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
) -> Result<Moved, StoreError> {
    match orders::cancel(sql, order_no, now).await? {
        Some(entry) => {
            // The ledger has decided: a failure from here on is finished by the sweeper, not shown to the buyer.
            let _ = bring_along(redis, sql, std::slice::from_ref(&entry)).await;
            Ok(Moved::Done(Box::new(entry.order)))
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
) -> Result<Moved, StoreError> {
    let Some(entry) = orders::start_payment(sql, order_no, checkout_url, now).await? else {
        return stands(sql, order_no, now).await;
    };
    let pay_by = entry.order.pay_by.unwrap_or_default().0.to_string();
    let url = entry.order.checkout_url.as_deref();
    let sessions = 2 * attempt + i64::from(url.is_none());
    hold(redis, order_no, url.unwrap_or_default(), pay_by, sessions).await?;
    Ok(Moved::Done(Box::new(entry.order)))
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
    hold(redis, order_no, "", String::new(), 2 * last.attempt + 1).await?;
    sessions::close(sql, order_no, session).await
}

/// Tells Redis where an order is paid (`lua/hold.lua`).
async fn hold<R: Redis>(
    redis: &R,
    order_no: &OrderNo,
    url: &str,
    pay_by: String,
    sessions: i64,
) -> Result<(), StoreError> {
    let key = Keys::of(order_no.activity()).order(order_no.ulid());
    HOLD.run(redis, vec![key], vec![url.into(), pay_by.into(), sessions.to_string().into()]).await.map(|_| ())
}

/// How an order stands that cannot be paid (any more).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn stands<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Moved, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) => Ok(Moved::Conflict(Box::new(entry.order.seen_at(now)))),
        None => Ok(Moved::Unknown),
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
) -> Result<Moved, StoreError> {
    match payments::request_refund(sql, order_no, now).await? {
        Some(entry) => {
            let _ = bring_along(redis, sql, std::slice::from_ref(&entry)).await;
            Ok(Moved::Done(Box::new(entry.order)))
        }
        None => match orders::load(sql, order_no).await? {
            Some(entry) if matches!(entry.order.status, Status::Refunding | Status::Refunded) => {
                Ok(Moved::Done(Box::new(entry.order)))
            }
            Some(entry) => Ok(Moved::Conflict(Box::new(entry.order))),
            None => Ok(Moved::Unknown),
        },
    }
}

/// What came of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It changed something now.
    Changed,
    /// It had been applied before.
    Duplicate,
    /// It is kept for an operator: wrong amount or currency, or an order that nobody knows.
    Held,
}

/// Applies what a provider said, exactly once (E2, E5, I6). The callback is written down first; every step after it may
/// be repeated, by the provider's next try or by the sweeper.
///
/// # Errors
/// [`StoreError`]; the provider is to try again.
pub async fn apply<R: Redis, S: Sql>(redis: &R, sql: &S, event: &Payment, now: Millis) -> Result<Applied, StoreError> {
    let callback = payments::note(sql, event, now).await?;
    if !callback.outcome.is_empty() {
        return Ok(Applied::Duplicate);
    }
    let (applied, outcome) = perform(redis, sql, &callback, now).await?;
    payments::close(sql, &callback.id, outcome).await?;
    Ok(applied)
}

/// Finishes callbacks that were written down and not applied to the end.
///
/// # Errors
/// [`StoreError`].
pub async fn finish_callbacks<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    limit: i64,
) -> Result<usize, StoreError> {
    let open = payments::open(sql, now.plus(-5_000), limit).await?;
    for callback in &open {
        let (_, outcome) = perform(redis, sql, callback, now).await?;
        payments::close(sql, &callback.id, outcome).await?;
    }
    Ok(open.len())
}

async fn perform<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    let Ok(order_no) = OrderNo::parse(&callback.order_no) else { return Ok((Applied::Held, "unknown_order")) };
    let Some(entry) = orders::load(sql, &order_no).await? else { return Ok((Applied::Held, "unknown_order")) };
    match callback.kind.as_str() {
        "payment.succeeded" => paid(redis, sql, callback, entry, now).await,
        "refund.succeeded" => money_back(redis, sql, callback, entry, now).await,
        "refund.failed" => {
            refunds::failed(sql, &callback.order_no, &callback.payment, &callback.refund, now).await?;
            Ok((Applied::Changed, "refund_to_retry"))
        }
        "session.ended" => {
            session_ended(redis, sql, &order_no, &callback.session).await?;
            Ok((Applied::Changed, "session_ended"))
        }
        // A failed attempt to pay changes nothing: the buyer may try again until the time is up.
        _ => Ok((Applied::Duplicate, "no_change")),
    }
}

async fn paid<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    entry: Entry,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    let order = &entry.order;
    if callback.amount != order.amount || callback.currency != order.currency {
        return Ok((Applied::Held, "wrong_amount"));
    }
    let settled = |entry: Entry, outcome| async move {
        bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
        Ok((Applied::Changed, outcome))
    };
    match order.status {
        Status::PendingPayment => match payments::pay(sql, callback, "pending_payment", now).await? {
            Some(entry) => settled(entry, "paid").await,
            // It moved between our two statements: look again.
            None => match orders::load(sql, &order.order_no).await? {
                Some(entry) if entry.order.status != Status::PendingPayment => {
                    Box::pin(paid(redis, sql, callback, entry, now)).await
                }
                _ => Err(StoreError::LedgerUnavailable("an order changed while it was paid".to_owned())),
            },
        },
        Status::Cancelled | Status::Expired => late(redis, sql, callback, order, now).await,
        _ if entry.payment == payments::LOST => named(redis, sql, callback, order, now).await,
        // Another payment than the one that it was paid with: money came twice, and goes back (I6).
        _ if entry.payment != callback.payment => pay_back(sql, callback, now).await,
        _ => Ok((Applied::Duplicate, "no_change")),
    }
}

/// It is told again what a lost ledger knew: the payment of an order has its id back, and a refund of it can be sent.
async fn named<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    if callback.payment.is_empty() {
        return Ok((Applied::Held, "unknown_payment"));
    }
    if payments::name(sql, callback).await? {
        return Ok((Applied::Changed, "payment_named"));
    }
    // Somebody was first, perhaps with another payment.
    match orders::load(sql, &order.order_no).await? {
        Some(entry) => Box::pin(paid(redis, sql, callback, entry, now)).await,
        None => Err(StoreError::LedgerUnavailable("an order vanished while it was paid".to_owned())),
    }
}

/// Money that no order wants goes back to its payer, as durable work; without a payment to name, an operator must see.
async fn pay_back<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<(Applied, &'static str), StoreError> {
    let Callback { order_no, payment, amount, currency, .. } = callback;
    if payment.is_empty() {
        return Ok((Applied::Held, "paid_twice"));
    }
    refunds::overpaid(sql, order_no, payment, *amount, currency, now).await?;
    Ok((Applied::Changed, "overpayment_refunded"))
}

/// The provider confirmed a refund: of money that no order wanted, or of the order's own.
async fn money_back<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    entry: Entry,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    if refunds::overpayment_back(sql, &callback.order_no, &callback.payment).await? {
        return Ok((Applied::Changed, "overpayment_back"));
    }
    let order = &entry.order;
    if callback.payment != entry.payment {
        return Ok((Applied::Held, "unknown_payment"));
    }
    if callback.amount != order.amount || callback.currency != order.currency {
        return Ok((Applied::Held, "wrong_amount"));
    }
    // Somebody gave the money back at the provider's own desk: the order follows.
    if order.status == Status::Paid {
        payments::request_refund(sql, &order.order_no, now).await?;
    }
    match payments::refunded(sql, &order.order_no, now).await? {
        Some(entry) => {
            bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
            Ok((Applied::Changed, "refunded"))
        }
        None => Ok((Applied::Duplicate, "no_change")),
    }
}

/// A payment that came after the order was released (E5): Redis says whether a unit is free, the ledger agrees or not.
///
/// Two of these may run at once, and either may die anywhere: the ledger's row decides who was first. Whoever finds it
/// moved brings Redis along with it, which gives back what Redis took for nothing.
async fn late<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    // Redis must have seen the release before it can take the unit again.
    follow(redis, sql, &order.order_no).await?;
    let keys = Keys::of(order.activity());
    let names = vec![
        keys.named("gate"),
        keys.order(order.order_no.ulid()),
        keys.stock(&order.sku),
        keys.holders(&order.sku),
        keys.named("stats"),
    ];
    let args = vec![
        now.0.to_string().into(),
        order.sku.as_str().into(),
        order.quantity.to_string().into(),
        order.user.as_str().into(),
    ];
    let word = RETAKE.run(redis, names, args).await?.text()?;
    if word == "later" {
        return Err(StoreError::RedisUnavailable("the sale is being rebuilt".to_owned()));
    }
    if word == "taken" {
        match payments::pay(sql, callback, order.status.as_str(), now).await {
            Ok(Some(entry)) => {
                bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
                return Ok((Applied::Changed, "paid_late"));
            }
            // The ledger has no room, or the order moved: what comes next knows which.
            Ok(None) | Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let moved = payments::refund_late(sql, callback, now).await?;
    follow(redis, sql, &order.order_no).await?;
    match (moved, orders::load(sql, &order.order_no).await?) {
        (Some(_), _) => Ok((Applied::Changed, "refund_started")),
        // Somebody was first, perhaps with other money.
        (None, Some(entry)) if !matches!(entry.order.status, Status::Cancelled | Status::Expired) => {
            Box::pin(paid(redis, sql, callback, entry, now)).await
        }
        _ => Err(StoreError::LedgerUnavailable("an order changed while it was paid".to_owned())),
    }
}

/// Brings Redis along with an order as the ledger has it now.
async fn follow<R: Redis, S: Sql>(redis: &R, sql: &S, order_no: &OrderNo) -> Result<(), StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) => bring_along(redis, sql, std::slice::from_ref(&entry)).await.map(|_| ()),
        None => Ok(()),
    }
}

/// What came of an operator's wish about a held callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// Done; where it was applied once more, what came of that.
    Done(Applied),
    /// There is no such callback that waits for an operator.
    NotHeld,
    /// It names no payment: there is nothing to give back.
    NoPayment,
}

/// Applies a held callback once more, now that its order may be known.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn replay_held<R: Redis, S: Sql>(redis: &R, sql: &S, id: &str, now: Millis) -> Result<Resolved, StoreError> {
    let Some(callback) = payments::let_go(sql, id, "").await? else { return Ok(Resolved::NotHeld) };
    let (applied, outcome) = perform(redis, sql, &callback, now).await?;
    payments::close(sql, id, outcome).await?;
    Ok(Resolved::Done(applied))
}

/// Gives the money of a held callback back to its payer (I6).
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refund_held<S: Sql>(sql: &S, id: &str, now: Millis) -> Result<Resolved, StoreError> {
    let held = payments::held_one(sql, id).await?;
    let Some(callback) = held.filter(|callback| callback.kind == "payment.succeeded") else {
        return Ok(Resolved::NotHeld);
    };
    let Callback { order_no, payment, amount, currency, .. } = &callback;
    if payment.is_empty() {
        return Ok(Resolved::NoPayment);
    }
    refunds::overpaid(sql, order_no, payment, *amount, currency, now).await?;
    payments::let_go(sql, id, "refunded_by_operator").await?;
    Ok(Resolved::Done(Applied::Changed))
}

/// Puts a held callback away: an operator has dealt with it elsewhere.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn dismiss_held<S: Sql>(sql: &S, id: &str) -> Result<Resolved, StoreError> {
    let dismissed = payments::let_go(sql, id, "dismissed_by_operator").await?;
    Ok(dismissed.map_or(Resolved::NotHeld, |_| Resolved::Done(Applied::Changed)))
}

/// The order as it is, after a move that this call did not make: fine if it is where it should be.
async fn after<S: Sql>(sql: &S, order_no: &OrderNo, wanted: Status) -> Result<Moved, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) if entry.order.status == wanted => Ok(Moved::Done(Box::new(entry.order))),
        Some(entry) => Ok(Moved::Conflict(Box::new(entry.order))),
        None => Ok(Moved::Unknown),
    }
}
