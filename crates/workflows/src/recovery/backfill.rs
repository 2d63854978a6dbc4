//! Backfills the ledger from Redis after the ledger was restored from a backup (G5; I4, I6).
//!
//! Redis then has orders and transitions that the ledger lacks. They are written again from the order records before
//! Redis is rebuilt; otherwise their units would be sold twice, and their payments lost. Comparing held and sold
//! units does not show whether a backfill is needed: if one lost order was released and another took its units, both
//! stores may still agree.
//!
//! Orders that Redis has released are written first, because other orders hold their units now; then paid orders, then
//! unpaid ones. Each order is inserted under its number, and advanced from its status in the ledger, never back. So a
//! backfill that stops anywhere can be repeated.

use std::collections::HashMap;

use domain::{
    ids::{ActivityId, OrderNo},
    order::{Order, OrderStatus},
    time::Millis,
};
use futures::future::join_all;

use crate::{
    hot::status::load_order,
    keys::Keys,
    ledger::{
        orders::{self, NewOrder},
        payments::{self, Callback, LOST_PAYMENT, PAID_TOO_LATE},
    },
    ports::{Redis, RedisArg, Sql, StoreError},
    queue::{
        dead_letters,
        order_writer::{self, InsertAnswer, NO_ROOM},
        stream,
    },
    reply::Reply,
    script::READ_ORDERS,
    settle::CLOSED_ORDER_TTL_SECONDS,
};

/// Orders read or written in one call.
const BATCH_SIZE: usize = 500;

/// Writes the orders that the gate of `epoch` accepted, and their transitions, where the ledger does not have them. An
/// order that the ledger has no room for is refunded if it was paid, otherwise it becomes a dead letter.
///
/// # Errors
/// `LedgerRefused` if the ledger lacks the SKU of an order that was paid. After any [`StoreError`], repeating the
/// backfill continues it.
pub async fn backfill<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    epoch: i64,
    now: Millis,
) -> Result<(), StoreError> {
    let keys = Keys::of(activity);
    let (mut released, mut paid, mut unpaid) = (Vec::new(), Vec::new(), Vec::new());
    for order_numbers in scan_recorded_orders(redis, activity, &keys).await?.chunks(BATCH_SIZE) {
        let rows = orders::load_many(sql, &order_numbers.iter().collect::<Vec<_>>()).await?;
        let ledger_orders: HashMap<_, _> =
            rows.into_iter().map(|row| (row.order.order_no.clone(), row.order)).collect();
        let records = order_numbers.iter().map(|order_no| keys.order(order_no.ulid())).collect();
        let mut reply = READ_ORDERS.run(redis, records, vec![epoch.to_string().into()]).await?;
        for order_no in order_numbers {
            let (status, holds_units, checkout_url) = (reply.text()?, reply.text()? == "1", reply.text()?);
            let Some(status) = OrderStatus::parse(&status) else { continue };
            let differs = match ledger_orders.get(order_no) {
                Some(order) => order.status != status || lacks_checkout_url(order, &checkout_url),
                // An order that holds no units and awaits no refund need not be written.
                None => holds_units || status == OrderStatus::Refunding,
            };
            let group = match status {
                _ if !holds_units => &mut released,
                OrderStatus::Queued | OrderStatus::PendingPayment => &mut unpaid,
                _ => &mut paid,
            };
            group.extend(differs.then(|| order_no.clone()));
        }
    }
    for (order_numbers, live) in [(released, false), (paid, true), (unpaid, true)] {
        for batch in order_numbers.chunks(BATCH_SIZE) {
            write_batch(redis, sql, activity, batch, live, epoch, now).await?;
        }
    }
    Ok(())
}

/// Whether Redis knows where an order is paid, and the ledger does not.
fn lacks_checkout_url(order: &Order, redis_url: &str) -> bool {
    order.status == OrderStatus::PendingPayment && order.checkout_url.is_none() && !redis_url.is_empty()
}

/// The orders of an activity that have a record in Redis, oldest first.
async fn scan_recorded_orders<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    keys: &Keys,
) -> Result<Vec<OrderNo>, StoreError> {
    let prefix = format!("{}order:", keys.prefix());
    let (mut order_numbers, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let pattern = format!("{prefix}*");
        let args = [&cursor, "MATCH", &pattern, "COUNT", "500"].map(RedisArg::from).into();
        let mut reply = Reply::new(redis.command("SCAN", args).await?);
        cursor = reply.text()?;
        while reply.remaining() > 0 {
            let key = reply.text()?;
            let order_no =
                key.strip_prefix(&prefix).and_then(|ulid| OrderNo::parse(&format!("{activity}.{ulid}")).ok());
            order_numbers.extend(order_no);
        }
        if cursor == "0" {
            // SCAN may return a key twice.
            order_numbers.sort_unstable_by_key(OrderNo::ulid);
            order_numbers.dedup();
            return Ok(order_numbers);
        }
    }
}

/// Writes a batch of orders up to their status in Redis. If they are `live` (their units are held or sold), first
/// inserts those that the ledger lacks, with their units.
async fn write_batch<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    order_numbers: &[OrderNo],
    live: bool,
    epoch: i64,
    now: Millis,
) -> Result<(), StoreError> {
    let mut orders = Vec::with_capacity(order_numbers.len());
    for order in join_all(order_numbers.iter().map(|order_no| load_order(redis, order_no))).await {
        orders.extend(order?.1);
    }
    let new: Vec<_> = orders.iter().map(|order| to_new_order(order, epoch)).collect();
    let new: Vec<_> = new.iter().collect();
    let answers = if live { order_writer::insert(sql, activity, &new, now).await? } else { Vec::new() };
    let states = orders::load_states(sql, activity, &new).await?;
    // D8: neither refund nor fail an order that the ledger accepted and does not have.
    let is_lost = |(state, answer): (&Option<_>, &InsertAnswer)| state.is_none() && !answer.is_refusal(sql.dialect());
    if states.iter().zip(&answers).any(is_lost) {
        return Err(StoreError::LedgerUnavailable("an order vanished after it was inserted".to_owned()));
    }
    let (keys, mut letters, mut records) = (Keys::of(activity), Vec::new(), Vec::new());
    for ((order, new), state) in orders.iter().zip(new).zip(states) {
        match (state, order.status) {
            (Some(state), _) => advance_order(sql, order, state.status, now).await?,
            (None, OrderStatus::Paid | OrderStatus::Refunding | OrderStatus::Refunded) => {
                orders::insert_released(sql, new, now).await?;
                payments::refund_late_payment(sql, &lost_payment(order), now).await?;
                advance_order(sql, order, OrderStatus::Refunding, now).await?;
            }
            (None, _) => {
                letters.push((order.order_no.to_string(), stream::encode_order(new), NO_ROOM));
                records.push(keys.order(order.order_no.ulid()));
            }
        }
    }
    dead_letters::record(sql, &letters, now).await?;
    // The buyer sees the failure, and an operator can requeue the dead letter. The rebuild counts the units anew.
    for record in records {
        let fields = [&record, "status", "failed", "live", "0", "reason", NO_ROOM].map(RedisArg::from).into();
        redis.command("HSET", fields).await?;
        redis.command("EXPIRE", [record, CLOSED_ORDER_TTL_SECONDS.to_string()].map(RedisArg::from).into()).await?;
    }
    Ok(())
}

fn to_new_order(order: &Order, epoch: i64) -> NewOrder {
    let Order { order_no, user, sku, quantity, money, created_at, .. } = order.clone();
    NewOrder { order_no, user, sku, quantity, money, created_at, epoch }
}

/// The callback of a payment whose id was lost with the ledger.
fn lost_payment(order: &Order) -> Callback {
    Callback { order_no: order.order_no.to_string(), payment: LOST_PAYMENT.to_owned(), ..Callback::default() }
}

/// Advances an order in the ledger from `status` to its status in Redis. A paid order that finds no room any more is
/// advanced to its refund.
async fn advance_order<S: Sql>(sql: &S, order: &Order, mut status: OrderStatus, now: Millis) -> Result<(), StoreError> {
    use OrderStatus::{Cancelled, Expired, Paid, PendingPayment, Refunded, Refunding};
    let (order_no, reason) = (&order.order_no, order.reason.as_deref().unwrap_or_default());
    loop {
        status = match (status, order.status) {
            (PendingPayment, PendingPayment) => {
                if let Some(url) = &order.checkout_url {
                    orders::start_payment(sql, order_no, url, now).await?;
                }
                return Ok(());
            }
            (PendingPayment, to @ (Cancelled | Expired)) => {
                orders::release(sql, order_no, to, reason, now).await?;
                to
            }
            (PendingPayment, Refunding | Refunded) if reason == PAID_TOO_LATE => {
                orders::release(sql, order_no, Cancelled, reason, now).await?;
                Cancelled
            }
            (Cancelled | Expired, Refunding | Refunded) if reason == PAID_TOO_LATE => {
                payments::refund_late_payment(sql, &lost_payment(order), now).await?;
                Refunding
            }
            (PendingPayment | Cancelled | Expired, Paid | Refunding | Refunded) => {
                match payments::mark_paid(sql, &lost_payment(order), status.as_str(), now).await {
                    Ok(_) => Paid,
                    Err(StoreError::LedgerRefused(_)) => {
                        payments::refund_late_payment(sql, &lost_payment(order), now).await?;
                        Refunding
                    }
                    Err(error) => return Err(error),
                }
            }
            (Paid, Refunding | Refunded) => {
                payments::request_refund(sql, order_no, now).await?;
                Refunding
            }
            (Refunding, Refunded) => {
                payments::mark_refunded(sql, order_no, now).await?;
                Refunded
            }
            _ => return Ok(()),
        };
    }
}
