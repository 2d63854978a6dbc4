//! Reads orders from Redis (`lua/status.lua`, `lua/list.lua`), and from the ledger what Redis does not know.

use domain::{
    ids::{ActivityId, OrderNo, UserId},
    order::{Order, OrderStatus},
    time::Millis,
};
use sale::line;
use stores::{
    keys::Keys,
    ledger::clock::Clock,
    ports::{Redis, Sql, StoreError},
    reply::{Reply, non_empty, non_zero_time, unexpected},
};
use ulid::Ulid;

use crate::{
    dead_letters,
    ledger::{line_entries, order_rows},
    scripts::{LIST, STATUS, TICKETS},
    sync::CLOSED_ORDER_TTL_SECONDS,
};

/// What Redis knows of an order.
#[derive(Debug, Clone)]
pub struct OrderLookup {
    /// Redis time.
    pub now: Millis,
    /// The order, if Redis has a record of it.
    pub order: Option<Order>,
    /// Whether Redis has the records of all orders of the activity that have not expired.
    is_complete: bool,
    /// While it waits in the line: the time to pay a unit that is offered, in milliseconds.
    pub offer_ms: i64,
}

impl OrderLookup {
    /// Whether there is no such order, also in the ledger: its ticket is younger than any record that has expired.
    #[must_use]
    pub fn proves_absence(&self, order_no: &OrderNo) -> bool {
        let issued_at = Millis(i64::try_from(order_no.ulid().timestamp_ms()).unwrap_or(i64::MAX));
        self.order.is_none() && self.is_complete && self.now < issued_at.plus(CLOSED_ORDER_TTL_SECONDS * 1_000)
    }
}

/// Looks for an order in Redis.
pub async fn load_order<R: Redis>(redis: &R, order_no: &OrderNo) -> Result<OrderLookup, StoreError> {
    look_up(redis, order_no, None).await
}

/// Looks for an order of a user in Redis, also among those who wait in the line.
pub async fn load_order_of<R: Redis>(redis: &R, order_no: &OrderNo, user: &UserId) -> Result<OrderLookup, StoreError> {
    let mut lookup = look_up(redis, order_no, Some(user)).await?;
    if let Some(order) = lookup.order.as_mut().filter(|order| order.status == OrderStatus::Waiting) {
        order.ahead = Some(line::ahead(redis, order_no.activity(), &order.sku, user).await?);
    }
    Ok(lookup)
}

/// Looks for an order in the ledger. `now` says whether the sale is over.
pub async fn load_from_ledger<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Option<Order>, StoreError> {
    let written = order_rows::load_effective(sql, order_no, Clock::Ledger).await?;
    if written.is_some() {
        return Ok(written);
    }
    // A failed order has no row. After its record in Redis expired, its dead letter remains (I4). So does who waited in a line,
    // or waits there again since an operator replayed the letter.
    let failed = dead_letters::load_failed_order(sql, order_no).await?;
    let entry = line_entries::load(sql, order_no, now).await?;
    Ok(match (failed, entry) {
        (Some(failed), Some(entry)) if entry.reason == failed.reason => Some(failed),
        (failed, entry) => entry.or(failed),
    })
}

async fn look_up<R: Redis>(redis: &R, order_no: &OrderNo, user: Option<&UserId>) -> Result<OrderLookup, StoreError> {
    let keys = Keys::of(order_no.activity());
    let mut script_keys = vec![keys.order(order_no.ulid())];
    script_keys.extend(keys.all(["stats", "gate", "queued", "entries"]));
    let name = user.map_or("", UserId::as_str);
    let mut reply = STATUS.run(redis, script_keys, vec![name.into()]).await?;
    let mut offer_ms = 0;
    let (order, is_complete) = match (reply.text()?.as_str(), user) {
        ("found", _) => (Some(parse_order(&mut reply, order_no.clone())?), true),
        ("entry", Some(user)) => {
            let order = parse_entry(&mut reply, order_no, user)?;
            offer_ms = reply.int()?;
            (Some(order), true)
        }
        ("absent", _) => (None, true),
        ("unknown", _) => (None, false),
        (word, _) => return Err(unexpected(word)),
    };
    Ok(OrderLookup { now: Millis(reply.int()?), order, is_complete, offer_ms })
}

/// Returns the numbers of the orders of a user in `activity` whose tickets are noted, `sale::admission::MAX_OPEN_TICKETS` at
/// most, and of their entries in the line. A ticket that was not used has no order.
pub async fn load_tickets<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    user: &UserId,
) -> Result<Vec<OrderNo>, StoreError> {
    let keys = Keys::of(activity);
    let script_keys = vec![keys.tickets(user), keys.named("entries")];
    let mut reply = TICKETS.run(redis, script_keys, vec![user.as_str().into()]).await?.after("found")?;
    let mut tickets = Vec::new();
    while reply.remaining() > 0 {
        tickets.push(OrderNo::new(activity.clone(), parse_ulid(&mut reply)?));
    }
    Ok(tickets)
}

/// Looks for `orders` of a user and one activity in Redis. Returns those that it has.
pub async fn load_orders<R: Redis>(redis: &R, orders: &[OrderNo], user: &UserId) -> Result<Vec<Order>, StoreError> {
    let Some(first) = orders.first() else { return Ok(Vec::new()) };
    let keys = Keys::of(first.activity());
    let mut script_keys = keys.all(["queued", "stats", "gate", "entries"]);
    script_keys.extend(orders.iter().map(|order_no| keys.order(order_no.ulid())));
    let mut reply = LIST.run(redis, script_keys, vec![user.as_str().into()]).await?.after("found")?;
    let mut found = Vec::new();
    while reply.remaining() > 0 {
        let order_no = OrderNo::new(first.activity().clone(), parse_ulid(&mut reply)?);
        found.push(if reply.is("order", "entry")? {
            parse_order(&mut reply, order_no)?
        } else {
            parse_entry(&mut reply, &order_no, user)?
        });
    }
    for order in found.iter_mut().filter(|order| order.status == OrderStatus::Waiting) {
        order.ahead = Some(line::ahead(redis, first.activity(), &order.sku, user).await?);
    }
    Ok(found)
}

fn parse_ulid(reply: &mut Reply) -> Result<Ulid, StoreError> {
    let ulid = reply.text()?;
    Ulid::from_string(&ulid).map_err(|_| unexpected(&ulid))
}

/// Parses the values of `read_entry` of `crates/stores/lua/line.lua`.
fn parse_entry(reply: &mut Reply, order_no: &OrderNo, user: &UserId) -> Result<Order, StoreError> {
    let (sku, money, created_at) = (reply.parse()?, reply.money()?, Millis(reply.int()?));
    let (state, is_over) = (reply.text()?, reply.int()? == 1);
    Ok(line::entry_as_order(order_no, user, (sku, money), created_at, line::status_of_entry(&state, is_over)))
}

/// Parses the values of `crates/stores/lua/read_order.lua`.
fn parse_order(reply: &mut Reply, order_no: OrderNo) -> Result<Order, StoreError> {
    Ok(Order {
        order_no,
        status: reply.parse()?,
        user: reply.parse()?,
        sku: reply.parse()?,
        quantity: reply.int()?,
        money: reply.money()?,
        created_at: Millis(reply.int()?),
        pay_by: non_zero_time(reply.int()?),
        paid_at: non_zero_time(reply.int()?),
        reason: non_empty(reply.text()?),
        checkout_url: non_empty(reply.text()?),
        declined_at: non_zero_time(reply.int()?),
        refunded: reply.int()?,
        ahead: Some(reply.int()?),
        estimated_wait_ms: reply.int()?,
    })
}
