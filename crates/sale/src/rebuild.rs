//! Rebuilding Redis from the ledger (G5): while the sale is paused or closed, and never overselling, since units that
//! the ledger holds are taken from the total before anything is open again.

use serde::Serialize;
use stampede_domain::{ids::ActivityId, order::Status, time::Millis};

use crate::{
    hot::reserve::fingerprint,
    keys::Keys,
    ledger::{
        activities,
        orders::{self, Entry},
    },
    ports::{Arg, Redis, Sql, StoreError},
    preheat::preheat,
    script::{FORGET, RESTORE},
    settle::CLOSED_KEPT_SECONDS,
    write,
};

/// Orders in one call.
const BATCH: i64 = 500;

/// What came of rebuilding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Rebuilt {
    /// Redis is as the ledger says.
    Done {
        /// Orders put back.
        orders: i64,
    },
    /// There is no such sale.
    Unknown,
    /// The sale is not paused or closed.
    Open,
    /// Orders are still on their way to the ledger, and could not be written now.
    Queued,
}

/// Makes Redis anew from the ledger.
///
/// # Errors
/// [`StoreError`]; doing it again goes on where it stopped.
pub async fn rebuild<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    id: &ActivityId,
    ticket_secret: &str,
    now: Millis,
) -> Result<Rebuilt, StoreError> {
    // What Redis still has of the queue is written first: the ledger is to know everything.
    while write::tick_redelivered(redis, sql, id, now, 0).await?.taken + write::tick(redis, sql, id, now).await?.taken
        > 0
    {}
    let Some(activity) = activities::load(sql, id).await? else { return Ok(Rebuilt::Unknown) };
    let keys = Keys::of(id);
    let names = ["gate", "orders", "stats", "queue", "due", "winners", "awake"].map(|name| keys.named(name)).into();
    let mut args: Vec<Arg> = vec![keys.prefix().into()];
    args.extend(activity.spec.skus.iter().map(|sku| sku.sku.as_str().into()));
    match FORGET.run(redis, names, args).await?.text()?.as_str() {
        "forgotten" => {}
        "open" => return Ok(Rebuilt::Open),
        _ => return Ok(Rebuilt::Queued),
    }
    preheat(redis, &activity, ticket_secret).await?;
    let (mut restored, mut after) = (0, String::new());
    loop {
        let page = orders::page(sql, id, &after, BATCH).await?;
        let Some(last) = page.last() else { return Ok(Rebuilt::Done { orders: restored }) };
        after = last.order.order_no.to_string();
        restored += restore(redis, &keys, &page).await?;
    }
}

async fn restore<R: Redis>(redis: &R, keys: &Keys, page: &[Entry]) -> Result<i64, StoreError> {
    let mut names: Vec<_> = ["gate", "due", "winners"].map(|name| keys.named(name)).into();
    let mut args: Vec<Arg> = vec![keys.prefix().into(), CLOSED_KEPT_SECONDS.to_string().into()];
    for entry in page {
        let order = &entry.order;
        let ulid = order.order_no.ulid();
        names.push(keys.order(ulid));
        args.push(ulid.to_string().into());
        args.push(fingerprint(ulid).to_vec());
        debug_assert!(order.status != Status::Queued);
        args.push(order.status.as_str().into());
        args.push(if entry.live { "1".into() } else { "0".into() });
        args.push(order.user.as_str().into());
        args.push(order.sku.as_str().into());
        for number in [order.quantity, order.amount] {
            args.push(number.to_string().into());
        }
        args.push(order.currency.as_str().into());
        for time in [Some(order.created_at), order.pay_by, order.paid_at] {
            args.push(time.unwrap_or_default().0.to_string().into());
        }
        args.push(order.reason.clone().unwrap_or_default().into());
        args.push(order.checkout_url.clone().unwrap_or_default().into());
    }
    RESTORE.run(redis, names, args).await?.int()
}
