//! What Redis knows of orders and the ledger does not, because it was restored from a backup (G5; I4, I6): orders that it
//! lacks, and moves. They are written again from the orders' records before Redis is made anew, or their units would be
//! sold twice, and their money be forgotten. Sums do not show whether it takes that: a released unit is sold again.
//!
//! What Redis has released comes first, since others hold its units; then what was paid. Each order is written by its
//! number, and moved on from where the ledger has it, never back: dying anywhere leaves what the next try finds.

use std::collections::HashMap;

use domain::{
    ids::{ActivityId, OrderNo},
    order::{Order, Status},
    time::Millis,
};
use futures::future::join_all;

use crate::{
    hot::status::status,
    keys::Keys,
    ledger::{
        orders::{self, NewOrder},
        payments::{self, Callback, LOST, TOO_LATE},
    },
    ports::{Arg, Redis, Sql, StoreError},
    queue::{
        dead_letters,
        order_writer::{self, NO_ROOM},
        stream,
    },
    reply::Reply,
    script::READ_ORDERS,
    settle::CLOSED_KEPT_SECONDS,
};

/// Orders looked at in one call.
const BATCH: usize = 500;

/// Writes again what the gate of `epoch` accepted, and how it moved, where the ledger does not have it. An order that
/// finds no room any more is refunded where it was paid, else a dead letter.
///
/// # Errors
/// [`StoreError::LedgerRefused`] where the ledger lacks the SKU of an order that was paid; doing it again goes on.
pub async fn backfill<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    epoch: i64,
    now: Millis,
) -> Result<(), StoreError> {
    let keys = Keys::of(activity);
    let (mut released, mut paid, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for numbers in accepted(redis, activity, &keys).await?.chunks(BATCH) {
        let known = orders::load_many(sql, &numbers.iter().collect::<Vec<_>>()).await?;
        let known: HashMap<_, _> = known.into_iter().map(|entry| (entry.order.order_no.clone(), entry.order)).collect();
        let records = numbers.iter().map(|number| keys.order(number.ulid())).collect();
        let mut seen = READ_ORDERS.run(redis, records, vec![epoch.to_string().into()]).await?;
        for number in numbers {
            let (status, holds, url) = (seen.text()?, seen.text()? == "1", seen.text()?);
            let Some(status) = Status::parse(&status) else { continue };
            let differs = match known.get(number) {
                Some(order) => order.status != status || can_be_paid_at(order, &url),
                // What was over and owes nobody anything is let go.
                None => holds || status == Status::Refunding,
            };
            let numbers = match status {
                _ if !holds => &mut released,
                Status::Queued | Status::PendingPayment => &mut waiting,
                _ => &mut paid,
            };
            numbers.extend(differs.then(|| number.clone()));
        }
    }
    for (numbers, held) in [(released, false), (paid, true), (waiting, true)] {
        for numbers in numbers.chunks(BATCH) {
            write_again(redis, sql, activity, numbers, held, epoch, now).await?;
        }
    }
    Ok(())
}

/// Whether Redis knows where an order is paid, and the ledger does not.
fn can_be_paid_at(order: &Order, url: &str) -> bool {
    order.status == Status::PendingPayment && order.checkout_url.is_none() && !url.is_empty()
}

/// The orders of a sale that Redis has a record of, oldest first.
async fn accepted<R: Redis>(redis: &R, activity: &ActivityId, keys: &Keys) -> Result<Vec<OrderNo>, StoreError> {
    let prefix = format!("{}order:", keys.prefix());
    let (mut numbers, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let pattern = format!("{prefix}*");
        let args = [&cursor, "MATCH", &pattern, "COUNT", "500"].map(Arg::from).into();
        let mut reply = Reply::new(redis.command("SCAN", args).await?);
        cursor = reply.text()?;
        while reply.left() > 0 {
            let key = reply.text()?;
            let number = key.strip_prefix(&prefix).and_then(|ulid| OrderNo::parse(&format!("{activity}.{ulid}")).ok());
            numbers.extend(number);
        }
        if cursor == "0" {
            // A key may come twice.
            numbers.sort_unstable_by_key(OrderNo::ulid);
            numbers.dedup();
            return Ok(numbers);
        }
    }
}

/// Writes a batch of orders again, up to where Redis has them; with the units that they hold, if they do.
async fn write_again<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    numbers: &[OrderNo],
    held: bool,
    epoch: i64,
    now: Millis,
) -> Result<(), StoreError> {
    let mut orders = Vec::with_capacity(numbers.len());
    for order in join_all(numbers.iter().map(|number| status(redis, number))).await {
        orders.extend(order?.1);
    }
    let new: Vec<_> = orders.iter().map(|order| to_write(order, epoch)).collect();
    let new: Vec<_> = new.iter().collect();
    if held {
        order_writer::insert(sql, activity, &new, now).await?;
    }
    let standings = orders::load_states(sql, activity, &new).await?;
    let (keys, mut letters, mut records) = (Keys::of(activity), Vec::new(), Vec::new());
    for ((order, new), standing) in orders.iter().zip(new).zip(standings) {
        match (standing, order.status) {
            (Some(standing), _) => advance(sql, order, standing.status, now).await?,
            (None, Status::Paid | Status::Refunding | Status::Refunded) => {
                orders::insert_released(sql, new, now).await?;
                payments::refund_late(sql, &lost(order), now).await?;
                advance(sql, order, Status::Refunding, now).await?;
            }
            (None, _) => {
                letters.push((order.order_no.to_string(), stream::to_message(new), NO_ROOM));
                records.push(keys.order(order.order_no.ulid()));
            }
        }
    }
    dead_letters::bury(sql, &letters, now).await?;
    // Its buyer sees it, and an operator can put it back. What it held is counted anew.
    for record in records {
        let fields = [&record, "status", "failed", "live", "0", "reason", NO_ROOM].map(Arg::from).into();
        redis.command("HSET", fields).await?;
        redis.command("EXPIRE", [record, CLOSED_KEPT_SECONDS.to_string()].map(Arg::from).into()).await?;
    }
    Ok(())
}

fn to_write(order: &Order, epoch: i64) -> NewOrder {
    let Order { order_no, user, sku, quantity, money, created_at, .. } = order.clone();
    NewOrder { order_no, user, sku, quantity, money, created_at, epoch }
}

/// What an order was paid with went with the ledger.
fn lost(order: &Order) -> Callback {
    Callback { order_no: order.order_no.to_string(), payment: LOST.to_owned(), ..Callback::default() }
}

/// Moves an order of the ledger on from `status` to where Redis has it; one that was paid and finds no room any more, to
/// its refund.
async fn advance<S: Sql>(sql: &S, order: &Order, mut status: Status, now: Millis) -> Result<(), StoreError> {
    use Status::{Cancelled, Expired, Paid, PendingPayment, Refunded, Refunding};
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
            (PendingPayment, Refunding | Refunded) if reason == TOO_LATE => {
                orders::release(sql, order_no, Cancelled, reason, now).await?;
                Cancelled
            }
            (Cancelled | Expired, Refunding | Refunded) if reason == TOO_LATE => {
                payments::refund_late(sql, &lost(order), now).await?;
                Refunding
            }
            (PendingPayment | Cancelled | Expired, Paid | Refunding | Refunded) => {
                match payments::pay(sql, &lost(order), status.as_str(), now).await {
                    Ok(_) => Paid,
                    Err(StoreError::LedgerRefused(_)) => {
                        payments::refund_late(sql, &lost(order), now).await?;
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
                payments::refunded(sql, order_no, now).await?;
                Refunded
            }
            _ => return Ok(()),
        };
    }
}
