//! The line of an activity (H1): who waits for a unit that comes back.
//!
//! A reservation joins it (`lua/reserve.lua`). While anybody waits for a SKU, its units left belong to the line (I8):
//! whoever frees some calls [`offer`], and the order writer and the sweeper repeat it. The place of an entry is the epoch and
//! the sequence of its reservation, and nothing else (I9).

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    order::{Order, OrderStatus},
    time::Millis,
};
use serde_json::json;
use stores::{
    keys::Keys,
    ports::{Redis, StoreError},
    reply::{Reply, unexpected},
};

use crate::scripts::{LEAVE, LINE_SKUS, OFFER};

/// Most entries that one call of the script offers to: Redis serves nobody else meanwhile.
const BATCH_SIZE: i64 = 100;

/// How many entries more than units a call looks at.
const SPARE: i64 = 5;

/// What [`offer`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offered {
    /// Orders that were made.
    pub orders: i64,
    /// Entries that ended, because their user may not have a unit any more.
    pub ended: i64,
    /// Whether units are left that somebody waits for.
    pub more: bool,
}

/// Offers the units left of all SKUs to those who wait, in `batches` calls of the script at most.
///
/// # Errors
/// `RedisUnavailable`: some offers may have been made. The next sweep goes on.
pub async fn offer<R: Redis>(redis: &R, activity: &ActivityId, batches: usize) -> Result<Offered, StoreError> {
    let keys = Keys::of(activity);
    let mut skus = LINE_SKUS.run(redis, keys.all(["gate", "stats"]), Vec::new()).await?.after("found")?;
    let (mut all, mut left_to_do) = (Offered::default(), batches);
    while skus.remaining() > 0 {
        let (sku, mut left): (SkuId, _) = (skus.parse()?, skus.int()?);
        loop {
            if left_to_do == 0 {
                all.more = true;
                return Ok(all);
            }
            left_to_do -= 1;
            let users = read_head(redis, &keys, &sku, left).await?;
            if users.is_empty() {
                break;
            }
            let mut script_keys = keys.all(["gate", "stats", "queued", "orders", "holders", "entries"]);
            script_keys.push(keys.line(&sku));
            script_keys.extend(users.iter().map(|user| keys.user("ban", user)));
            let mut reply = OFFER.run_with(redis, script_keys, &json!({ "sku": sku, "users": users })).await?;
            match reply.text()?.as_str() {
                "offered" => {
                    all.orders += reply.int()?;
                    all.ended += reply.int()?;
                    left = reply.int()?;
                    if left == 0 || reply.int()? == 0 {
                        break;
                    }
                }
                "changed" => {}
                "closed" => return Ok(all),
                word => return Err(unexpected(word)),
            }
        }
    }
    Ok(all)
}

/// Reads who is served first by the units `left`, and some more: who may not have one is passed.
async fn read_head<R: Redis>(redis: &R, keys: &Keys, sku: &SkuId, left: i64) -> Result<Vec<UserId>, StoreError> {
    let last = (left + SPARE).min(BATCH_SIZE - 1).to_string();
    let args = vec![keys.line(sku).into(), "0".into(), last.into()];
    let mut reply = Reply::new(redis.command("ZRANGE", args).await?);
    let mut users = Vec::new();
    while reply.remaining() > 0 {
        users.push(reply.parse()?);
    }
    Ok(users)
}

/// How many are ahead of a user who waits for a SKU; 0 for one who does not.
pub async fn ahead<R: Redis>(redis: &R, activity: &ActivityId, sku: &SkuId, user: &UserId) -> Result<i64, StoreError> {
    let args = vec![Keys::of(activity).line(sku).into(), user.as_str().into()];
    Reply::new(redis.command("ZRANK", args).await?).int()
}

/// The state of an entry that has not ended.
pub const WAITING: &str = "waiting";

/// Status and reason of an entry. `state` is [`WAITING`] or why it ended; the end of the sale ends the line.
#[must_use]
pub fn status_of_entry(state: &str, is_over: bool) -> (OrderStatus, Option<String>) {
    match state {
        WAITING if is_over => (OrderStatus::Expired, Some("sale_ended".to_owned())),
        WAITING => (OrderStatus::Waiting, None),
        reason => (OrderStatus::Cancelled, Some(reason.to_owned())),
    }
}

/// An entry as the order that its number names, without its place.
#[must_use]
pub fn entry_as_order(
    order_no: &OrderNo,
    user: &UserId,
    (sku, money): (SkuId, Money),
    created_at: Millis,
    (status, reason): (OrderStatus, Option<String>),
) -> Order {
    Order {
        order_no: order_no.clone(),
        user: user.clone(),
        status,
        sku,
        quantity: 1,
        money,
        created_at,
        pay_by: None,
        paid_at: None,
        reason,
        checkout_url: None,
        refunded: 0,
        declined_at: None,
        ahead: None,
        estimated_wait_ms: 0,
    }
}

domain::words! {
    /// Who ends an entry: its reason.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Leaver {
        /// Its user.
        Buyer = "left_line",
        /// An operator.
        Operator = "removed_by_operator",
    }
}

/// Result of [`leave`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveOutcome {
    /// The entry has ended, now or before, for this reason.
    Left(String),
    /// A unit was offered: there is an order.
    Offered,
    /// The user has no such entry.
    Absent,
    /// Redis does not have the whole line: it is being rebuilt.
    Unknown,
}

/// Ends an entry of the line. The ledger follows.
///
/// # Errors
/// `RedisUnavailable`: it may or may not have ended; the call can be repeated.
pub async fn leave<R: Redis>(redis: &R, entry: &Order, by: Leaver) -> Result<LeaveOutcome, StoreError> {
    let keys = Keys::of(entry.activity());
    let mut script_keys = keys.all(["gate", "stats", "queued", "orders", "entries"]);
    script_keys.push(keys.line(&entry.sku));
    let args = vec![entry.user.as_str().into(), entry.order_no.ulid().to_string().into(), by.as_str().into()];
    let mut reply = LEAVE.run(redis, script_keys, args).await?;
    Ok(match reply.text()?.as_str() {
        "left" => LeaveOutcome::Left(reply.text()?),
        "offered" => LeaveOutcome::Offered,
        "absent" => LeaveOutcome::Absent,
        "unknown" => LeaveOutcome::Unknown,
        word => return Err(unexpected(word)),
    })
}
