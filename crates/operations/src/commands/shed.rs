//! Load shedding (B9): while it is on, challenges, tickets and reservations are refused with `overloaded`.
//!
//! The ledger stores the switch, so that it outlives every gate; each gate has a copy.

use domain::ids::ActivityId;
use futures::future::join_all;
use sale::ledger::activities;
use stores::{
    keys::Keys,
    ledger::{clock::Clock, switches},
    ports::{Redis, Sql, StoreError},
};

use crate::scripts::SHED;

const SWITCH: &str = "shed";

/// Turns load shedding on or off, also for activities that are published later. Returns the number of gates that were
/// updated.
///
/// # Errors
/// Any [`StoreError`]: some gates may be updated; repeating the call completes it.
pub async fn set<R: Redis, S: Sql>(redis: &R, sql: &S, on: bool) -> Result<usize, StoreError> {
    // The ledger first: a gate that is created meanwhile is either in the list below, or its rebuild reads the new
    // switch.
    switches::set(sql, SWITCH, on).await?;
    let activities = activities::list_in_redis(sql, Clock::Ledger).await?;
    // A server that is away keeps the switch from no other's activities.
    let updates = join_all(activities.iter().map(|activity| set_gate_flag(redis, activity, on))).await;
    updates.into_iter().try_fold(0, |sum, updated| updated.map(|updated| sum + usize::from(updated)))
}

/// Whether load shedding is on.
pub async fn is_on<S: Sql>(sql: &S) -> Result<bool, StoreError> {
    switches::is_on(sql, SWITCH).await
}

/// Copies the switch to a gate that was just created. The activity must already be published in the ledger, so that a
/// concurrent [`set`] reaches it.
///
/// # Errors
/// Any [`StoreError`]; repeating the call completes it.
pub async fn copy_to_gate<R: Redis, S: Sql>(redis: &R, sql: &S, activity: &ActivityId) -> Result<(), StoreError> {
    if is_on(sql).await? {
        set_gate_flag(redis, activity, true).await?;
    }
    Ok(())
}

async fn set_gate_flag<R: Redis>(redis: &R, activity: &ActivityId, on: bool) -> Result<bool, StoreError> {
    let flag = if on { "1" } else { "0" };
    SHED.run(redis, vec![Keys::of(activity).named("gate")], vec![flag.into()]).await?.is("done", "no_gate")
}
