//! Backfills the ledger from Redis after the ledger was restored from a backup (G5; I4, I6).
//!
//! Redis then has orders and transitions that the ledger lacks. They are written again from the order records before
//! Redis is rebuilt; otherwise their units would be sold twice, and their payments lost. Comparing held and sold
//! units does not show whether a backfill is needed: if one lost order was released and another took its units, both
//! stores may still agree.
//!
//! Orders that Redis has released are written first, because other orders hold their units now; then paid orders, then
//! unpaid ones: each in a pass over the index of order records in Redis. Each order is inserted under its number, and
//! advanced from its status in the ledger, never back. So every page can be repeated, and a backfill that stops anywhere
//! continues at the position that the ledger has.

use domain::{
    ids::{ActivityId, OrderNo},
    order::{Order, OrderStatus},
    time::Millis,
};
use futures::future::join_all;
use orders::{
    dead_letters,
    ledger::{
        order_changes,
        order_rows::{self, RecordedOrder},
    },
    message_batch::{self, InsertAnswer, NO_ROOM},
    order_record::{NewOrder, OrderState},
    status::load_order,
    stream,
    sync::CLOSED_ORDER_TTL_SECONDS,
};
use payments::ledger::callback_rows::{self, Callback, LOST_PAYMENT, PAID_TOO_LATE};
use serde_json::json;
use stores::{
    keys::Keys,
    ports::{Redis, RedisArg, Sql, StoreError},
    reply::Reply,
};

use crate::{
    ledger::rebuilds::{self, BegunRebuild},
    scripts::{FAIL_ORDERS, READ_ORDERS},
    upkeep::budget::Timer,
};

const ULID_LENGTH: usize = 26;

/// Orders that a pass writes, in the order of the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Released,
    Paid,
    Unpaid,
}

const PASSES: [Group; 3] = [Group::Released, Group::Paid, Group::Unpaid];

/// Position of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillProgress {
    /// The ledger has everything.
    Done,
    /// This pass has compared this number of orders.
    Compared(i64),
}

/// Writes the orders that the gate of `gate_epoch` accepted, and their transitions, where the ledger does not have
/// them. An order that the ledger has no room for is refunded if it was paid, otherwise it becomes a dead letter.
///
/// Continues where `rebuild` is, and stops after the page in which the time is up.
///
/// # Errors
/// `LedgerRefused` if the ledger lacks the SKU of an order that was paid. After any [`StoreError`], repeating the
/// backfill continues it.
pub(super) async fn backfill<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    gate_epoch: i64,
    mut rebuild: BegunRebuild,
    timer: &Timer,
) -> Result<BackfillProgress, StoreError> {
    let keys = Keys::of(activity);
    loop {
        let Some(pass) = usize::try_from(rebuild.pass).ok().and_then(|pass| PASSES.get(pass)) else {
            return Ok(BackfillProgress::Done);
        };
        let order_numbers = read_index(redis, activity, &keys, rebuild.position, timer.batch_size()).await?;
        let mut next = BegunRebuild { position: rebuild.position + order_numbers.len() as i64, ..rebuild.clone() };
        let mut batch = Vec::new();
        for (order_no, group) in find_differing(redis, sql, &keys, gate_epoch, &order_numbers).await? {
            next.live_orders_differ |= group != Group::Released;
            if group == *pass {
                batch.push(order_no);
            }
        }
        // An order that was requeued is in the index twice.
        batch.sort_unstable_by_key(OrderNo::ulid);
        batch.dedup();
        write_batch(redis, sql, activity, &batch, *pass != Group::Released, gate_epoch, timer.now()).await?;
        if order_numbers.len() < timer.batch_size() {
            let pass = if next.live_orders_differ { next.pass + 1 } else { PASSES.len() as i64 };
            next = BegunRebuild { pass, position: 0, ..next };
        }
        rebuilds::advance(sql, activity, &rebuild, &next).await?;
        rebuild = next;
        if timer.is_up() && rebuild.pass < PASSES.len() as i64 {
            return Ok(BackfillProgress::Compared(rebuild.position));
        }
    }
}

/// Counts the orders in the index.
pub(super) async fn count_indexed<R: Redis>(redis: &R, keys: &Keys) -> Result<i64, StoreError> {
    let length = Reply::new(redis.command("STRLEN", vec![keys.named("index").into()]).await?).int()?;
    Ok(length / ULID_LENGTH as i64)
}

async fn read_index<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    keys: &Keys,
    position: i64,
    count: usize,
) -> Result<Vec<OrderNo>, StoreError> {
    let first = position * ULID_LENGTH as i64;
    let last = first + (count * ULID_LENGTH) as i64 - 1;
    let args = [keys.named("index"), first.to_string(), last.to_string()].map(RedisArg::from).into();
    let ulids = Reply::new(redis.command("GETRANGE", args).await?).text()?;
    let parse = |ulid: &[u8]| {
        let ulid = String::from_utf8_lossy(ulid);
        OrderNo::parse(&format!("{activity}.{ulid}"))
            .map_err(|_| StoreError::Malformed(format!("{ulid:?} in the index of {activity}")))
    };
    ulids.as_bytes().chunks(ULID_LENGTH).map(parse).collect()
}

/// Returns the orders whose records in Redis, of the gate's epoch, the ledger does not have as they are.
async fn find_differing<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    keys: &Keys,
    gate_epoch: i64,
    order_numbers: &[OrderNo],
) -> Result<Vec<(OrderNo, Group)>, StoreError> {
    if order_numbers.is_empty() {
        return Ok(Vec::new());
    }
    let records = order_numbers.iter().map(|order_no| keys.order(order_no.ulid())).collect();
    let args = vec![gate_epoch.to_string().into()];
    let mut reply = READ_ORDERS.run(redis, records, args).await?.after("found")?;
    let mut recorded = Vec::with_capacity(order_numbers.len());
    for order_no in order_numbers {
        let (status, holds_units, checkout_url) = (reply.text()?, reply.text()? == "1", reply.text()?);
        let Some(status) = OrderStatus::parse(&status) else { continue };
        let has_checkout_url = !checkout_url.is_empty();
        recorded.push(RecordedOrder { order_no: order_no.clone(), status, holds_units, has_checkout_url });
    }
    let group = |order: &RecordedOrder| match order.status {
        _ if !order.holds_units => Group::Released,
        OrderStatus::Queued | OrderStatus::PendingPayment => Group::Unpaid,
        _ => Group::Paid,
    };
    let differing = order_rows::find_differing(sql, &recorded).await?.into_iter();
    Ok(differing.filter_map(|index| recorded.get(index)).map(|order| (order.order_no.clone(), group(order))).collect())
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
    if order_numbers.is_empty() {
        return Ok(());
    }
    let mut orders = Vec::with_capacity(order_numbers.len());
    for order in join_all(order_numbers.iter().map(|order_no| load_order(redis, order_no))).await {
        orders.extend(order?.order);
    }
    let new: Vec<_> = orders.iter().map(|order| to_new_order(order, epoch)).collect();
    let new: Vec<_> = new.iter().collect();
    let answers = if live { message_batch::insert(sql, activity, &new, now).await? } else { Vec::new() };
    let order_numbers: Vec<_> = new.iter().map(|order| &order.order_no).collect();
    let states = order_rows::load_states(sql, activity, &order_numbers).await?;
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
                order_changes::insert_released(sql, new, now).await?;
                callback_rows::refund_late_payment(sql, &lost_payment(order), now).await?;
                advance_order(sql, order, OrderStatus::Refunding, now).await?;
            }
            (None, _) => {
                letters.push((order.order_no.to_string(), stream::encode_order(new), NO_ROOM));
                records.push(keys.order(order.order_no.ulid()));
            }
        }
    }
    dead_letters::record(sql, &letters, now).await?;
    // The buyer sees the failure, and an operator can requeue the dead letter.
    if !records.is_empty() {
        let state = OrderState::failed(epoch, NO_ROOM);
        let options = json!({ "closed_ttl": CLOSED_ORDER_TTL_SECONDS, "state": state });
        FAIL_ORDERS.run_with(redis, records, &options).await?;
    }
    Ok(())
}

fn to_new_order(order: &Order, epoch: i64) -> NewOrder {
    let Order { order_no, user, sku, quantity, money, created_at, .. } = order.clone();
    NewOrder { order_no, user, sku, quantity, money, created_at, epoch, sequence: 0, offer: None }
}

/// The callback of a payment whose id was lost with the ledger.
fn lost_payment(order: &Order) -> Callback {
    Callback { order_no: order.order_no.to_string(), payment: LOST_PAYMENT.to_owned(), ..Callback::default() }
}

/// Advances an order in the ledger from `status` to its status in Redis, by single transitions. A paid order that finds
/// no room any more is advanced to its refund.
async fn advance_order<S: Sql>(sql: &S, order: &Order, mut status: OrderStatus, now: Millis) -> Result<(), StoreError> {
    use OrderStatus::{Cancelled, Expired, Failed, Paid, PendingPayment, Queued, Refunded, Refunding, Waiting};
    let (order_no, reason) = (&order.order_no, order.reason.as_deref().unwrap_or_default());
    if let (PendingPayment, PendingPayment, Some(url)) = (status, order.status, &order.checkout_url) {
        order_changes::restart_payment(sql, order_no, url, now).await?;
    }
    while status.can_reach(order.status) {
        // An order is refunded because it was paid, or because its payment came after its release.
        let via = match order.status {
            Refunding | Refunded if reason == PAID_TOO_LATE => Cancelled,
            Refunding | Refunded => Paid,
            other => other,
        };
        let Some(step) = status.step_towards(via).or_else(|| status.step_towards(order.status)) else { return Ok(()) };
        status = match step {
            Cancelled | Expired => order_changes::release(sql, order_no, step, reason, now).await.map(|_| step),
            Paid => match callback_rows::mark_paid(sql, &lost_payment(order), status, now).await {
                Err(StoreError::LedgerRefused(_)) => {
                    callback_rows::refund_late_payment(sql, &lost_payment(order), now).await.map(|_| Refunding)
                }
                paid => paid.map(|_| step),
            },
            Refunding if status == Paid => {
                callback_rows::request_refund(sql, order_no, callback_rows::EVER, now).await.map(|_| step)
            }
            Refunding => callback_rows::refund_late_payment(sql, &lost_payment(order), now).await.map(|_| step),
            Refunded => callback_rows::mark_refunded(sql, order_no, now).await.map(|_| step),
            // No transition of a row leads to these.
            Waiting | Queued | PendingPayment | Failed => return Ok(()),
        }?;
    }
    Ok(())
}
