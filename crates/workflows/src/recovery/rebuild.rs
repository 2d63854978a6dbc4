//! Rebuilds an activity's data in Redis from the ledger (G5).
//!
//! A rebuild runs only while nothing is sold. It never oversells: units that the ledger holds are subtracted from the
//! total before the gate is open again.
//!
//! Each rebuild starts a new epoch, which is raised in the ledger first. Orders that an older epoch accepted and the
//! ledger does not have are refused from then on: a late writer leaves dead letters, never an order that Redis does not
//! count. While the gate is marked `restoring`, transitions of the ledger wait; afterwards each finds its order's
//! record, counted with the status that was read.
//!
//! Orders and transitions that Redis has and the ledger lacks, because it was restored from a backup, are written to
//! the ledger first ([`crate::recovery::backfill`]).
//!
//! A rebuild that stops anywhere leaves an activity that sells nothing; repeating it starts a later epoch.

use domain::{activity::ActivityState, ids::ActivityId, time::Millis};
use serde::Serialize;

use crate::{
    cache::warm_up::{WarmUpOutcome, warm_up_during_rebuild},
    keys::Keys,
    ledger::{
        activities::{self, Activity},
        epochs, orders,
    },
    operator::{bans, shed},
    ports::{Redis, RedisArg, Sql, StoreError},
    queue::order_writer,
    recovery::{
        backfill::backfill,
        restore::{Source, restore},
    },
    reply::Reply,
    script::{FINISH, RESET},
};

/// Orders restored in one call.
const BATCH_SIZE: i64 = 500;

/// Maximum number of rounds that drain the stream before a rebuild. A round writes up to two batches.
const MAX_DRAIN_ROUNDS: usize = 1_000;

/// How often a rebuild is attempted while others raise the epoch.
const MAX_ATTEMPTS: usize = 4;

/// Result of [`rebuild`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RebuildOutcome {
    /// Redis matches the ledger.
    Done {
        /// Orders restored.
        orders: i64,
        /// The epoch that started.
        epoch: i64,
    },
    /// There is no such activity.
    #[serde(rename = "unknown")]
    NotFound,
    /// The activity is a draft: there is nothing to rebuild.
    Draft,
    /// The gate is published: the activity must be paused or closed first.
    Open,
    /// Orders are still in the stream, and could not be written now.
    Queued,
    /// The ledger does not have the SKU of a paid order (any more): a rebuild would lose that order.
    SkuLost,
    /// Another rebuild, of a later epoch, is at work.
    Fenced,
}

/// Rebuilds an activity's data in Redis from the ledger.
///
/// # Errors
/// [`StoreError`]; the activity may sell nothing until the rebuild is repeated, which starts over.
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

/// Runs one rebuild. Returns `None` if another rebuild raised the epoch meanwhile. This one may have deleted its gate,
/// so the caller tries again.
async fn try_rebuild<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    id: &ActivityId,
    ticket_secret: &str,
    now: Millis,
) -> Result<Option<RebuildOutcome>, StoreError> {
    let Some(activity) = activities::load(sql, id).await? else { return Ok(Some(RebuildOutcome::NotFound)) };
    if activity.state == ActivityState::Draft {
        return Ok(Some(RebuildOutcome::Draft));
    }
    let keys = Keys::of(id);
    let gate = [&keys.named("gate"), "epoch", "state", "restoring"].map(RedisArg::from).into();
    let mut gate = Reply::new(redis.command("HMGET", gate).await?);
    let (gate_epoch, state, restoring) = (gate.int()?, gate.text()?, gate.int()? == 1);
    // A gate whose epoch is not older decides whether the activity is open: a ledger that was restored may be wrong
    // about it.
    if gate_epoch >= activity.epoch && !restoring && state == ActivityState::Published.as_str() {
        return Ok(Some(RebuildOutcome::Open));
    }
    if gate_epoch > activity.epoch {
        epochs::raise_to(sql, id, gate_epoch).await?;
    }
    let previous_epoch = activity.epoch.max(gate_epoch);
    // Write what is left in the stream first, so that the ledger has every order.
    for _ in 0..MAX_DRAIN_ROUNDS {
        let reclaimed = order_writer::write_reclaimed(redis, sql, id, now, 0).await?;
        if reclaimed.unanswered > 0 {
            // The new epoch would fail these orders (D8).
            return Err(StoreError::LedgerUnavailable("it gave no answer about an order in the stream".to_owned()));
        }
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
    // Load it again: from here on, every change of the activity comes after the new epoch.
    let Some(activity) = activities::load(sql, id).await? else { return Ok(Some(RebuildOutcome::NotFound)) };
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
        let Some(count) = restore(redis, id, epoch, Source::Rebuild, &page).await? else {
            return Ok(Some(RebuildOutcome::Fenced));
        };
        restored += count;
    }
    let script_keys = ["gate", "stats", "queue", "orders", "winners"].map(|name| keys.named(name)).into();
    match FINISH.run(redis, script_keys, vec![keys.prefix().into(), epoch.to_string().into()]).await?.text()?.as_str() {
        "done" => Ok(Some(RebuildOutcome::Done { orders: restored, epoch })),
        _ => Ok(Some(RebuildOutcome::Fenced)),
    }
}

/// Deletes the gate. With the new `epoch`, also deletes stream, counters, stock and holders, and creates the gate of
/// that epoch, marked `restoring`. Returns why Redis refused, or `None` if it did not.
async fn reset<R: Redis>(
    redis: &R,
    keys: &Keys,
    activity: &Activity,
    epoch: Option<i64>,
) -> Result<Option<RebuildOutcome>, StoreError> {
    let script_keys = ["gate", "orders", "stats", "queue", "awake"].map(|name| keys.named(name)).into();
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
