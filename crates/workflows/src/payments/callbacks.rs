//! What payment providers say (E2, E5, I6): each callback is written down first, and applied exactly once; what nobody
//! can apply is held for an operator ([`held`]).

pub mod held;

use domain::{
    ids::OrderNo,
    order::{Order, Status},
    time::Millis,
    webhook::Payment,
};

use crate::{
    keys::Keys,
    ledger::{
        orders::{self, OrderRow},
        payments::{self, Callback},
        refunds::{self, Book},
    },
    payments::commands::{session_ended, settle},
    ports::{Redis, Sql, StoreError},
    script::REACQUIRE,
};

/// What came of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It changed something now.
    Changed,
    /// It had been applied before.
    Duplicate,
    /// It is kept for an operator: wrong amount or currency, an order that nobody knows, or a refund that came back.
    Held,
}

/// Applies what a provider said, exactly once (E2, E5, I6). The callback is written down first; every step after it may
/// be repeated, by the provider's next try or by the sweeper.
///
/// # Errors
/// [`StoreError`]; the provider is to try again.
pub async fn apply<R: Redis, S: Sql>(redis: &R, sql: &S, event: &Payment, now: Millis) -> Result<Applied, StoreError> {
    let callback = payments::record_callback(sql, event, now).await?;
    if !callback.outcome.is_empty() {
        return Ok(Applied::Duplicate);
    }
    let (applied, outcome) = perform(redis, sql, &callback, now).await?;
    payments::close(sql, &callback.id, outcome).await?;
    Ok(applied)
}

/// Finishes callbacks that were written down and not applied to the end, after the first `waiting`, whose sales are being
/// rebuilt; counts those among them that are, too: one sale holds up no other.
///
/// # Errors
/// [`StoreError`].
pub async fn finish<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    limit: i64,
    waiting: &mut usize,
) -> Result<usize, StoreError> {
    let mut finished = 0;
    for callback in payments::open(sql, now.plus(-5_000), limit, *waiting).await? {
        match perform(redis, sql, &callback, now).await {
            Err(StoreError::Rebuilding) => *waiting += 1,
            other => {
                payments::close(sql, &callback.id, other?.1).await?;
                finished += 1;
            }
        }
    }
    Ok(finished)
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
        "refund.failed" => money_not_back(sql, callback, entry, now).await,
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
    entry: OrderRow,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    // It goes back to its payer: it pays nothing any more, however often it is told.
    if refunds::given_back(sql, &callback.payment).await? {
        return Ok((Applied::Duplicate, "given_back"));
    }
    let order = &entry.order;
    if callback.money != order.money {
        return Ok((Applied::Held, "wrong_amount"));
    }
    let settled = |entry: OrderRow, outcome| async move {
        settle(redis, sql, std::slice::from_ref(&entry)).await?;
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
    let Callback { order_no, payment, money, .. } = callback;
    if payment.is_empty() {
        return Ok((Applied::Held, "paid_twice"));
    }
    refunds::overpaid(sql, order_no, payment, money, now).await?;
    Ok((Applied::Changed, "overpayment_refunded"))
}

/// The provider confirmed a refund: of money that no order wanted, or of the order's own.
async fn money_back<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    entry: OrderRow,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    let Callback { order_no, payment, refund, .. } = callback;
    if refunds::confirm(sql, Book::Overpayments, order_no, payment, refund).await? {
        return Ok((Applied::Changed, "overpayment_back"));
    }
    let order = &entry.order;
    if callback.payment != entry.payment {
        return Ok((Applied::Held, "unknown_payment"));
    }
    if callback.money != order.money {
        return Ok((Applied::Held, "wrong_amount"));
    }
    // Somebody gave the money back at the provider's own desk: the order follows.
    if order.status == Status::Paid {
        payments::request_refund(sql, &order.order_no, now).await?;
    }
    refunds::confirm(sql, Book::Orders, order_no, payment, refund).await?;
    match payments::refunded(sql, &order.order_no, now).await? {
        Some(entry) => {
            settle(redis, sql, std::slice::from_ref(&entry)).await?;
            Ok((Applied::Changed, "refunded"))
        }
        None => Ok((Applied::Duplicate, "no_change")),
    }
}

/// The provider could not give money back. It is asked again, unless it had confirmed the refund: then the order is
/// refunded, and an operator must see that its buyer has nothing (I6).
async fn money_not_back<S: Sql>(
    sql: &S,
    callback: &Callback,
    entry: OrderRow,
    now: Millis,
) -> Result<(Applied, &'static str), StoreError> {
    let Callback { order_no, payment, refund, .. } = callback;
    if refunds::failed(sql, order_no, payment, refund, now).await? {
        return Ok((Applied::Changed, "refund_to_retry"));
    }
    if refunds::bounced(sql, order_no, payment, refund).await? {
        return Ok((Applied::Held, "refund_bounced"));
    }
    if *payment != entry.payment && !refunds::given_back(sql, payment).await? {
        return Ok((Applied::Held, "unknown_payment"));
    }
    Ok((Applied::Duplicate, "no_change"))
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
    settle_order(redis, sql, &order.order_no).await?;
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
        order.money.amount.to_string().into(),
        order.money.currency.as_str().into(),
        order.created_at.0.to_string().into(),
        order.status.as_str().into(),
    ];
    let word = REACQUIRE.run(redis, names, args).await?.text()?;
    if word == "later" {
        return Err(StoreError::Rebuilding);
    }
    if word == "taken" {
        match payments::pay(sql, callback, order.status.as_str(), now).await {
            Ok(Some(entry)) => {
                settle(redis, sql, std::slice::from_ref(&entry)).await?;
                return Ok((Applied::Changed, "paid_late"));
            }
            // The ledger has no room, or the order moved: what comes next knows which.
            Ok(None) | Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let moved = payments::refund_late(sql, callback, now).await?;
    settle_order(redis, sql, &order.order_no).await?;
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
async fn settle_order<R: Redis, S: Sql>(redis: &R, sql: &S, order_no: &OrderNo) -> Result<(), StoreError> {
    match orders::load(sql, order_no).await? {
        Some(entry) => settle(redis, sql, std::slice::from_ref(&entry)).await.map(|_| ()),
        None => Ok(()),
    }
}
