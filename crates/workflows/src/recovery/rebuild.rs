//! Making Redis anew from the ledger (G5): while nothing is sold, and never overselling, since units that the ledger holds
//! are taken from the total before anything is open again.
//!
//! Each rebuild is a new epoch, raised in the ledger first. What an older epoch accepted and the ledger does not have is
//! refused from then on: a writer that comes late leaves dead letters, never an order that Redis does not count. While the
//! gate says `restoring`, moves of the ledger wait; each finds its record afterwards, counted as it was read.
//!
//! What Redis knows and the ledger does not, because it was restored from a backup, is written again first
//! ([`crate::recovery::backfill`]).
//!
//! Dying anywhere leaves a sale that sells nothing; doing it again begins a later epoch.

use domain::{activity::ActivityState, ids::ActivityId, order::OrderStatus, time::Millis};
use serde::Serialize;

use crate::{
    cache::warm_up::{WarmUpOutcome, warm_up_during_rebuild},
    hot::reserve::fingerprint,
    keys::Keys,
    ledger::{
        activities::{self, Activity},
        epochs,
        orders::{self, OrderRow},
    },
    operator::{bans, shed},
    ports::{Redis, RedisArg, Sql, StoreError},
    queue::order_writer,
    recovery::backfill::backfill,
    reply::Reply,
    script::{FINISH, RESET, RESTORE},
    settle::CLOSED_ORDER_TTL_SECONDS,
};

/// Orders in one call.
const BATCH_SIZE: i64 = 500;

/// Batches of the queue that are written first, at most.
const MAX_DRAIN_ROUNDS: usize = 1_000;

/// How often a rebuild begins while others raise the epoch.
const MAX_ATTEMPTS: usize = 4;

/// What came of rebuilding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RebuildOutcome {
    /// Redis is as the ledger says.
    Done {
        /// Orders put back.
        orders: i64,
        /// The epoch that began.
        epoch: i64,
    },
    /// There is no such sale.
    Unknown,
    /// The sale is a draft: there is nothing to rebuild.
    Draft,
    /// The sale is not paused or closed.
    Open,
    /// Orders are still on their way to the ledger, and could not be written now.
    Queued,
    /// An order was paid whose SKU the ledger does not have (any more): it would be forgotten.
    SkuLost,
    /// Another rebuild, later than this one, is at work.
    Fenced,
}

/// Makes Redis anew from the ledger.
///
/// # Errors
/// [`StoreError`]; doing it again begins anew.
pub async fn rebuild<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    id: &ActivityId,
    ticket_secret: &str,
    now: Millis,
) -> Result<RebuildOutcome, StoreError> {
    for _ in 0..MAX_ATTEMPTS {
        if let Some(outcome) = try_rebuild(redis, sql, id, ticket_secret, now).await? {
            return Ok(outcome);
        }
    }
    Ok(RebuildOutcome::Fenced)
}

/// Begins and ends a rebuild; nothing where another one raised the epoch meanwhile, perhaps to lose its gate to this one.
async fn try_rebuild<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    id: &ActivityId,
    ticket_secret: &str,
    now: Millis,
) -> Result<Option<RebuildOutcome>, StoreError> {
    let Some(activity) = activities::load(sql, id).await? else { return Ok(Some(RebuildOutcome::Unknown)) };
    if activity.state == ActivityState::Draft {
        return Ok(Some(RebuildOutcome::Draft));
    }
    let keys = Keys::of(id);
    let gate = [&keys.named("gate"), "epoch", "state", "restoring"].map(RedisArg::from).into();
    let mut gate = Reply::new(redis.command("HMGET", gate).await?);
    let (gate_epoch, state, restoring) = (gate.int()?, gate.text()?, gate.int()? == 1);
    // The gate says whether the sale is open, where it is not an old one: a ledger that was restored may be wrong about it.
    if gate_epoch >= activity.epoch && !restoring && state == ActivityState::Published.as_str() {
        return Ok(Some(RebuildOutcome::Open));
    }
    if gate_epoch > activity.epoch {
        epochs::raise_to(sql, id, gate_epoch).await?;
    }
    let previous_epoch = activity.epoch.max(gate_epoch);
    // What Redis still has of the queue is written first: the ledger is to know everything.
    for _ in 0..MAX_DRAIN_ROUNDS {
        let reclaimed = order_writer::write_reclaimed(redis, sql, id, now, 0).await?;
        if reclaimed.messages + order_writer::write_new(redis, sql, id, now).await?.messages == 0 {
            break;
        }
    }
    if gate_epoch > 0 {
        match backfill(redis, sql, id, gate_epoch, now).await {
            Err(StoreError::LedgerRefused(_)) => return Ok(Some(RebuildOutcome::SkuLost)),
            other => other?,
        }
    }
    if let Some(refused) = reset(redis, &keys, &activity, None).await? {
        return Ok(Some(refused));
    }
    let Some(epoch) = epochs::raise(sql, id, previous_epoch, gate_epoch).await? else { return Ok(None) };
    if let Some(refused) = reset(redis, &keys, &activity, Some(epoch)).await? {
        return Ok(Some(refused));
    }
    // Read anew: from here on every change of the sale comes after the new epoch.
    let Some(activity) = activities::load(sql, id).await? else { return Ok(Some(RebuildOutcome::Unknown)) };
    if activity.epoch != epoch
        || warm_up_during_rebuild(redis, &activity, ticket_secret).await? == WarmUpOutcome::NoGate
    {
        return Ok(Some(RebuildOutcome::Fenced));
    }
    bans::copy_to_redis(redis, sql, id, now).await?;
    shed::copy_to_gate(redis, sql, id).await?;
    let (mut restored, mut after) = (0, String::new());
    loop {
        let page = orders::load_page(sql, id, &after, BATCH_SIZE).await?;
        let Some(last) = page.last() else { break };
        after = last.order.order_no.to_string();
        match restore(redis, &keys, epoch, &page).await? {
            -1 => return Ok(Some(RebuildOutcome::Fenced)),
            count => restored += count,
        }
    }
    let script_keys = ["gate", "stats", "queue", "orders", "winners"].map(|name| keys.named(name)).into();
    match FINISH.run(redis, script_keys, vec![keys.prefix().into(), epoch.to_string().into()]).await?.text()?.as_str() {
        "done" => Ok(Some(RebuildOutcome::Done { orders: restored, epoch })),
        _ => Ok(Some(RebuildOutcome::Fenced)),
    }
}

/// Takes the gate away; with the new epoch, everything else too. Answers why not, where it was refused.
async fn reset<R: Redis>(
    redis: &R,
    keys: &Keys,
    activity: &Activity,
    epoch: Option<i64>,
) -> Result<Option<RebuildOutcome>, StoreError> {
    let script_keys = ["gate", "orders", "stats", "queue", "winners", "awake"].map(|name| keys.named(name)).into();
    let epoch = epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
    let mut args: Vec<RedisArg> = vec![keys.prefix().into(), epoch.into()];
    args.extend(activity.spec.skus.iter().map(|sku| sku.sku.as_str().into()));
    Ok(match RESET.run(redis, script_keys, args).await?.text()?.as_str() {
        "forgotten" => None,
        "open" => Some(RebuildOutcome::Open),
        "queued" => Some(RebuildOutcome::Queued),
        _ => Some(RebuildOutcome::Fenced),
    })
}

/// Puts a page of orders back; answers how many, or -1 where a later rebuild is at work.
async fn restore<R: Redis>(redis: &R, keys: &Keys, epoch: i64, page: &[OrderRow]) -> Result<i64, StoreError> {
    let mut script_keys: Vec<_> = ["gate", "stats", "winners"].map(|name| keys.named(name)).into();
    let mut args: Vec<RedisArg> =
        vec![keys.prefix().into(), CLOSED_ORDER_TTL_SECONDS.to_string().into(), epoch.to_string().into()];
    for row in page {
        let order = &row.order;
        let ulid = order.order_no.ulid();
        script_keys.push(keys.order(ulid));
        args.push(fingerprint(ulid).to_vec());
        debug_assert!(order.status != OrderStatus::Queued);
        args.push(order.status.as_str().into());
        args.push(if row.live { "1".into() } else { "0".into() });
        args.push(order.user.as_str().into());
        args.push(order.sku.as_str().into());
        for number in [order.quantity, order.money.amount] {
            args.push(number.to_string().into());
        }
        args.push(order.money.currency.as_str().into());
        for time in [Some(order.created_at), order.pay_by, order.paid_at] {
            args.push(time.unwrap_or_default().0.to_string().into());
        }
        args.push(order.reason.clone().unwrap_or_default().into());
        args.push(order.checkout_url.clone().unwrap_or_default().into());
    }
    RESTORE.run(redis, script_keys, args).await?.int()
}
