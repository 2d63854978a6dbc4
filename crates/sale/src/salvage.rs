//! Orders that hold units in Redis and that the ledger has lost, or has as they were before they were paid (G5, I4): it was
//! restored from a backup, and is older than Redis. They are written again from their records before Redis is made anew,
//! or their units would be sold twice.
//!
//! Each is written by its number, and moved on from where the ledger has it: dying anywhere leaves what the next try finds.

use std::collections::HashMap;

use futures::future::join_all;
use stampede_domain::{
    ids::{ActivityId, OrderNo},
    order::{Order, Status},
    time::Millis,
};

use crate::{
    audit::{Audit, LedgerFigures, SkuAudit},
    dead,
    hot::status::status,
    keys::Keys,
    ledger::{
        orders::{self, NewOrder},
        payments::{self, Callback, LOST},
    },
    ports::{Arg, Redis, Sql, StoreError},
    reply::Reply,
    stream,
};

/// Why an order that the ledger lost could not be written again.
const NO_ROOM: &str = "no_room_in_ledger";

/// Orders looked at in one statement.
const BATCH: usize = 500;

/// Whether a sale's figures show that the ledger is older than Redis. Moves are the ledger's first: on their way they show
/// the other way round.
#[must_use]
pub fn is_behind(audit: &Audit) -> bool {
    let sold = |ledger: &LedgerFigures| ledger.counted - ledger.pending;
    let behind =
        |sku: &SkuAudit| sku.drift > 0 || sku.ledger.as_ref().is_some_and(|ledger| sku.redis.sold > sold(ledger));
    audit.skus.iter().any(behind)
}

/// Writes again what the gate of `epoch` accepted and the ledger does not have. One that finds no room any more becomes
/// a dead letter.
///
/// # Errors
/// [`StoreError`]; doing it again goes on.
pub async fn salvage<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    epoch: i64,
    now: Millis,
) -> Result<(), StoreError> {
    let keys = Keys::of(activity);
    for numbers in accepted(redis, activity, &keys).await?.chunks(BATCH) {
        let known = orders::load_many(sql, &numbers.iter().collect::<Vec<_>>()).await?;
        let known: HashMap<_, _> = known.into_iter().map(|entry| (entry.order.order_no, entry.order.status)).collect();
        for held in join_all(numbers.iter().map(|number| held(redis, &keys, number, epoch))).await {
            let Some(order) = held? else { continue };
            match known.get(&order.order_no) {
                Some(status) => follow(sql, &order, *status, now).await?,
                None => write_again(sql, &order, epoch, now).await?,
            }
        }
    }
    Ok(())
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

/// The record of an order that holds units, if the gate of `epoch` counts them.
async fn held<R: Redis>(redis: &R, keys: &Keys, number: &OrderNo, epoch: i64) -> Result<Option<Order>, StoreError> {
    let args = vec![keys.order(number.ulid()).into(), "epoch".into(), "live".into()];
    let mut record = Reply::new(redis.command("HMGET", args).await?);
    let (of_epoch, live) = (record.int()? == epoch, record.text()? == "1");
    let order = status(redis, number).await?.1.filter(|_| of_epoch);
    Ok(order.filter(|order| live || matches!(order.status, Status::Queued | Status::PendingPayment)))
}

/// Writes an order again, up to where Redis has it.
async fn write_again<S: Sql>(sql: &S, order: &Order, epoch: i64, now: Millis) -> Result<(), StoreError> {
    let Order { order_no, user, sku, quantity, money, created_at, .. } = order.clone();
    let new = NewOrder { order_no, user, sku, quantity, money, created_at, epoch };
    match orders::insert(sql, order.activity(), &[&new], now).await {
        Ok(()) | Err(StoreError::LedgerRefused(_)) => {}
        Err(error) => return Err(error),
    }
    match orders::standings(sql, order.activity(), &[&new]).await?.pop().flatten() {
        Some(standing) => follow(sql, order, standing.status, now).await,
        None => dead::bury(sql, &[(order.order_no.to_string(), stream::to_message(&new), NO_ROOM)], now).await,
    }
}

/// Moves an order of the ledger on from `status` to where Redis has it. What it was paid with went with the ledger.
async fn follow<S: Sql>(sql: &S, order: &Order, status: Status, now: Millis) -> Result<(), StoreError> {
    use Status::{Paid, PendingPayment, Refunded, Refunding};
    let order_no = &order.order_no;
    match (status, order.status) {
        (PendingPayment, PendingPayment) => {
            if let Some(url) = &order.checkout_url {
                orders::start_payment(sql, order_no, url, now).await?;
            }
            return Ok(());
        }
        (PendingPayment, Paid | Refunding | Refunded) => {
            let payment = LOST.to_owned();
            let paid = Callback { order_no: order_no.to_string(), payment, ..Callback::default() };
            payments::pay(sql, &paid, PendingPayment.as_str(), now).await?;
        }
        (Paid, Refunding | Refunded) => {
            payments::request_refund(sql, order_no, now).await?;
        }
        (Refunding, Refunded) => {
            payments::refunded(sql, order_no, now).await?;
        }
        _ => return Ok(()),
    }
    let next = match status {
        PendingPayment => Paid,
        Paid => Refunding,
        _ => return Ok(()),
    };
    Box::pin(follow(sql, order, next, now)).await
}
