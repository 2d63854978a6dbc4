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
    },
    ports::{Redis, Sql, StoreError},
    script::{HOLD, RETAKE, UNTAKE},
    settle::settle,
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

/// Tells Redis what became of orders of one activity, and notes that it knows.
///
/// # Errors
/// [`StoreError`]; the sweeper finishes it.
pub async fn bring_along<R: Redis, S: Sql>(redis: &R, sql: &S, entries: &[Entry]) -> Result<(), StoreError> {
    let Some(first) = entries.first() else { return Ok(()) };
    let moves: Vec<_> = entries.iter().map(|entry| entry.to_move(String::new())).collect();
    settle(redis, first.order.activity(), &moves).await?;
    orders::mark_settled(sql, entries).await
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

/// Starts a payment: notes where to pay in the ledger and in Redis.
///
/// # Errors
/// [`StoreError`].
pub async fn start_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    order_no: &OrderNo,
    checkout_url: &str,
    address: &str,
    now: Millis,
) -> Result<Moved, StoreError> {
    let Some(entry) = orders::start_payment(sql, order_no, checkout_url, address, now).await? else {
        return match orders::load(sql, order_no).await? {
            Some(entry) => Ok(Moved::Conflict(Box::new(entry.order.seen_at(now)))),
            None => Ok(Moved::Unknown),
        };
    };
    let keys = Keys::of(order_no.activity());
    let pay_by = entry.order.pay_by.unwrap_or_default().0;
    let args = vec![order_no.ulid().to_string().into(), checkout_url.into(), pay_by.to_string().into()];
    HOLD.run(redis, vec![keys.order(order_no.ulid()), keys.named("due")], args).await?;
    Ok(Moved::Done(Box::new(entry.order)))
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
        "refund.succeeded" => match payments::refunded(sql, &order_no, now).await? {
            Some(entry) => {
                bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
                Ok((Applied::Changed, "refunded"))
            }
            None => Ok((Applied::Duplicate, "no_change")),
        },
        "refund.failed" => {
            payments::refund_failed(sql, &order_no, now).await?;
            Ok((Applied::Changed, "refund_to_retry"))
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
        // Another payment than the one that it was paid with: money came twice, and goes back by an operator's hand.
        _ if entry.payment != callback.payment => Ok((Applied::Held, "paid_twice")),
        _ => Ok((Applied::Duplicate, "no_change")),
    }
}

/// A payment that came after the order was released (E5): Redis says whether a unit is free, the ledger agrees or not.
async fn late<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    // Redis must have seen the release before it can take the unit again.
    if let Some(entry) = orders::load(sql, &order.order_no).await? {
        bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
    }
    let keys = Keys::of(order.activity());
    let names = || {
        vec![
            keys.named("gate"),
            keys.order(order.order_no.ulid()),
            keys.stock(&order.sku),
            keys.holders(&order.sku),
            keys.named("stats"),
        ]
    };
    let args = vec![
        now.0.to_string().into(),
        order.sku.as_str().into(),
        order.quantity.to_string().into(),
        order.user.as_str().into(),
    ];
    let taken = RETAKE.run(redis, names(), args).await?.text()? == "taken";
    if taken {
        match payments::pay(sql, callback, order.status.as_str(), now).await {
            Ok(Some(entry)) => {
                bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
                return Ok((Applied::Changed, "paid_late"));
            }
            // The ledger has no room, or the order moved: what Redis took goes back.
            Ok(None) | Err(StoreError::LedgerRefused(_)) => {
                let args = vec![
                    order.sku.as_str().into(),
                    order.quantity.to_string().into(),
                    order.user.as_str().into(),
                    "paid_too_late".into(),
                ];
                UNTAKE.run(redis, names(), args).await?;
            }
            Err(error) => return Err(error),
        }
    }
    match payments::refund_late(sql, callback, now).await? {
        Some(entry) => {
            bring_along(redis, sql, std::slice::from_ref(&entry)).await?;
            Ok((Applied::Changed, "refund_started"))
        }
        None => Ok((Applied::Duplicate, "no_change")),
    }
}

/// The order as it is, after a move that this call did not make: fine if it is where it should be.
async fn after<S: Sql>(sql: &S, order_no: &OrderNo, wanted: Status) -> Result<Moved, StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) if entry.order.status == wanted => Ok(Moved::Done(Box::new(entry.order))),
        Some(entry) => Ok(Moved::Conflict(Box::new(entry.order))),
        None => Ok(Moved::Unknown),
    }
}
