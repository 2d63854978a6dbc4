//! What payment providers say (E2, E5, I6): each callback is written down first, and applied exactly once; what nobody
//! can apply is held for an operator ([`held`]).

pub mod held;

use domain::{
    ids::OrderNo,
    order::{Order, OrderStatus},
    time::Millis,
    webhook::ProviderEvent,
};

use crate::{
    keys::Keys,
    ledger::{
        orders::{self, OrderRow},
        payments::{self, Callback},
        refunds::{self, RefundKind},
    },
    payments::commands::{session_ended, settle_orders},
    ports::{Redis, Sql, StoreError},
    script::REACQUIRE,
};

/// What came of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// It changed something now.
    Changed,
    /// It had been applied before.
    NoChange,
    /// It is kept for an operator: wrong amount or currency, an order that nobody knows, or a refund that came back.
    Held,
}

/// Applies what a provider said, exactly once (E2, E5, I6). The callback is written down first; every step after it may
/// be repeated, by the provider's next try or by the sweeper.
///
/// # Errors
/// [`StoreError`]; the provider is to try again.
pub async fn apply<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    event: &ProviderEvent,
    now: Millis,
) -> Result<CallbackOutcome, StoreError> {
    let callback = payments::record_callback(sql, event, now).await?;
    if !callback.outcome.is_empty() {
        return Ok(CallbackOutcome::NoChange);
    }
    let (outcome, ledger_outcome) = dispatch(redis, sql, &callback, now).await?;
    payments::set_outcome(sql, &callback.id, ledger_outcome).await?;
    Ok(outcome)
}

/// Finishes callbacks that were written down and not applied to the end, after the first `waiting`, whose sales are being
/// rebuilt; counts those among them that are, too: one sale holds up no other.
///
/// # Errors
/// [`StoreError`].
pub async fn apply_pending<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    limit: i64,
    blocked: &mut usize,
) -> Result<usize, StoreError> {
    let mut finished = 0;
    for callback in payments::load_unprocessed(sql, now.plus(-5_000), limit, *blocked).await? {
        match dispatch(redis, sql, &callback, now).await {
            Err(StoreError::Rebuilding) => *blocked += 1,
            other => {
                payments::set_outcome(sql, &callback.id, other?.1).await?;
                finished += 1;
            }
        }
    }
    Ok(finished)
}

async fn dispatch<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    let Ok(order_no) = OrderNo::parse(&callback.order_no) else { return Ok((CallbackOutcome::Held, "unknown_order")) };
    let Some(row) = orders::load(sql, &order_no).await? else { return Ok((CallbackOutcome::Held, "unknown_order")) };
    match callback.kind.as_str() {
        "payment.succeeded" => handle_payment(redis, sql, callback, row, now).await,
        "refund.succeeded" => handle_refund_succeeded(redis, sql, callback, row, now).await,
        "refund.failed" => handle_refund_failed(sql, callback, row, now).await,
        "session.ended" => {
            session_ended(redis, sql, &order_no, &callback.session).await?;
            Ok((CallbackOutcome::Changed, "session_ended"))
        }
        // A failed attempt to pay changes nothing: the buyer may try again until the time is up.
        _ => Ok((CallbackOutcome::NoChange, "no_change")),
    }
}

async fn handle_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    row: OrderRow,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    // It goes back to its payer: it pays nothing any more, however often it is told.
    if refunds::is_overpayment(sql, &callback.payment).await? {
        return Ok((CallbackOutcome::NoChange, "given_back"));
    }
    let order = &row.order;
    if callback.money != order.money {
        return Ok((CallbackOutcome::Held, "wrong_amount"));
    }
    let settle_as = |row: OrderRow, ledger_outcome| async move {
        settle_orders(redis, sql, std::slice::from_ref(&row)).await?;
        Ok((CallbackOutcome::Changed, ledger_outcome))
    };
    match order.status {
        OrderStatus::PendingPayment => match payments::mark_paid(sql, callback, "pending_payment", now).await? {
            Some(row) => settle_as(row, "paid").await,
            // It moved between our two statements: look again.
            None => match orders::load(sql, &order.order_no).await? {
                Some(row) if row.order.status != OrderStatus::PendingPayment => {
                    Box::pin(handle_payment(redis, sql, callback, row, now)).await
                }
                _ => Err(StoreError::LedgerUnavailable("an order changed while it was paid".to_owned())),
            },
        },
        OrderStatus::Cancelled | OrderStatus::Expired => handle_late_payment(redis, sql, callback, order, now).await,
        _ if row.payment == payments::LOST_PAYMENT => restore_payment_id(redis, sql, callback, order, now).await,
        // Another payment than the one that it was paid with: money came twice, and goes back (I6).
        _ if row.payment != callback.payment => refund_overpayment(sql, callback, now).await,
        _ => Ok((CallbackOutcome::NoChange, "no_change")),
    }
}

/// It is told again what a lost ledger knew: the payment of an order has its id back, and a refund of it can be sent.
async fn restore_payment_id<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    if callback.payment.is_empty() {
        return Ok((CallbackOutcome::Held, "unknown_payment"));
    }
    if payments::restore_payment_id(sql, callback).await? {
        return Ok((CallbackOutcome::Changed, "payment_named"));
    }
    // Somebody was first, perhaps with another payment.
    match orders::load(sql, &order.order_no).await? {
        Some(row) => Box::pin(handle_payment(redis, sql, callback, row, now)).await,
        None => Err(StoreError::LedgerUnavailable("an order vanished while it was paid".to_owned())),
    }
}

/// Money that no order wants goes back to its payer, as durable work; without a payment to name, an operator must see.
async fn refund_overpayment<S: Sql>(
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    let Callback { order_no, payment, money, .. } = callback;
    if payment.is_empty() {
        return Ok((CallbackOutcome::Held, "paid_twice"));
    }
    refunds::record_overpayment(sql, order_no, payment, money, now).await?;
    Ok((CallbackOutcome::Changed, "overpayment_refunded"))
}

/// The provider confirmed a refund: of money that no order wanted, or of the order's own.
async fn handle_refund_succeeded<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    row: OrderRow,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    let Callback { order_no, payment, refund, .. } = callback;
    if refunds::confirm(sql, RefundKind::Overpayments, order_no, payment, refund).await? {
        return Ok((CallbackOutcome::Changed, "overpayment_back"));
    }
    let order = &row.order;
    if callback.payment != row.payment {
        return Ok((CallbackOutcome::Held, "unknown_payment"));
    }
    if callback.money != order.money {
        return Ok((CallbackOutcome::Held, "wrong_amount"));
    }
    // Somebody gave the money back at the provider's own desk: the order follows.
    if order.status == OrderStatus::Paid {
        payments::request_refund(sql, &order.order_no, now).await?;
    }
    refunds::confirm(sql, RefundKind::Orders, order_no, payment, refund).await?;
    match payments::mark_refunded(sql, &order.order_no, now).await? {
        Some(row) => {
            settle_orders(redis, sql, std::slice::from_ref(&row)).await?;
            Ok((CallbackOutcome::Changed, "refunded"))
        }
        None => Ok((CallbackOutcome::NoChange, "no_change")),
    }
}

/// The provider could not give money back. It is asked again, unless it had confirmed the refund: then the order is
/// refunded, and an operator must see that its buyer has nothing (I6).
async fn handle_refund_failed<S: Sql>(
    sql: &S,
    callback: &Callback,
    row: OrderRow,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    let Callback { order_no, payment, refund, .. } = callback;
    if refunds::record_failure(sql, order_no, payment, refund, now).await? {
        return Ok((CallbackOutcome::Changed, "refund_to_retry"));
    }
    if refunds::was_confirmed(sql, order_no, payment, refund).await? {
        return Ok((CallbackOutcome::Held, "refund_bounced"));
    }
    if *payment != row.payment && !refunds::is_overpayment(sql, payment).await? {
        return Ok((CallbackOutcome::Held, "unknown_payment"));
    }
    Ok((CallbackOutcome::NoChange, "no_change"))
}

/// A payment that came after the order was released (E5): Redis says whether a unit is free, the ledger agrees or not.
///
/// Two of these may run at once, and either may die anywhere: the ledger's row decides who was first. Whoever finds it
/// moved brings Redis along with it, which gives back what Redis took for nothing.
async fn handle_late_payment<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    callback: &Callback,
    order: &Order,
    now: Millis,
) -> Result<(CallbackOutcome, &'static str), StoreError> {
    // Redis must have seen the release before it can take the unit again.
    load_and_settle(redis, sql, &order.order_no).await?;
    let keys = Keys::of(order.activity());
    let script_keys = vec![
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
    let word = REACQUIRE.run(redis, script_keys, args).await?.text()?;
    if word == "later" {
        return Err(StoreError::Rebuilding);
    }
    if word == "taken" {
        match payments::mark_paid(sql, callback, order.status.as_str(), now).await {
            Ok(Some(row)) => {
                settle_orders(redis, sql, std::slice::from_ref(&row)).await?;
                return Ok((CallbackOutcome::Changed, "paid_late"));
            }
            // The ledger has no room, or the order moved: what comes next knows which.
            Ok(None) | Err(StoreError::LedgerRefused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let refunding = payments::refund_late_payment(sql, callback, now).await?;
    load_and_settle(redis, sql, &order.order_no).await?;
    match (refunding, orders::load(sql, &order.order_no).await?) {
        (Some(_), _) => Ok((CallbackOutcome::Changed, "refund_started")),
        // Somebody was first, perhaps with other money.
        (None, Some(row)) if !matches!(row.order.status, OrderStatus::Cancelled | OrderStatus::Expired) => {
            Box::pin(handle_payment(redis, sql, callback, row, now)).await
        }
        _ => Err(StoreError::LedgerUnavailable("an order changed while it was paid".to_owned())),
    }
}

/// Brings Redis along with an order as the ledger has it now.
async fn load_and_settle<R: Redis, S: Sql>(redis: &R, sql: &S, order_no: &OrderNo) -> Result<(), StoreError> {
    match orders::load(sql, order_no).await? {
        Some(row) => settle_orders(redis, sql, std::slice::from_ref(&row)).await.map(|_| ()),
        None => Ok(()),
    }
}
