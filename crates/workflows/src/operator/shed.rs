//! Shedding load (B9): while it is on, every sale answers `overloaded` to reservations. The ledger has the switch, so that
//! it outlives every gate; each gate has a copy.

use domain::ids::ActivityId;
use futures::future::try_join_all;

use crate::{
    keys::Keys,
    ledger::switches,
    ports::{Redis, Sql, StoreError},
    recovery::sweep,
    script::SHED,
};

/// The switch in the ledger.
const SWITCH: &str = "shed";

/// Turns it on or off. Answers how many sales were told.
///
/// # Errors
/// [`StoreError`]; doing it again finishes it. While the ledger is away, gates are told all the same.
pub async fn set<R: Redis, S: Sql>(redis: &R, sql: &S, on: bool) -> Result<usize, StoreError> {
    // The ledger first: a gate that is made meanwhile is told here, or finds the switch.
    let ledger_result = switches::set(sql, SWITCH, on).await;
    let activities = sweep::list_activities(redis).await?;
    let gates_updated = try_join_all(activities.iter().map(|activity| set_gate_flag(redis, activity, on))).await?;
    ledger_result.map(|()| gates_updated.into_iter().filter(|updated| *updated).count())
}

/// Whether load is shed.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn is_on<S: Sql>(sql: &S) -> Result<bool, StoreError> {
    switches::is_on(sql, SWITCH).await
}

/// Gives a gate that was just made, and is among the sales by now, its copy.
///
/// # Errors
/// [`StoreError`].
pub async fn copy_to_gate<R: Redis, S: Sql>(redis: &R, sql: &S, activity: &ActivityId) -> Result<(), StoreError> {
    if is_on(sql).await? {
        set_gate_flag(redis, activity, true).await?;
    }
    Ok(())
}

async fn set_gate_flag<R: Redis>(redis: &R, activity: &ActivityId, on: bool) -> Result<bool, StoreError> {
    let flag = if on { "1" } else { "0" };
    let mut reply = SHED.run(redis, vec![Keys::of(activity).named("gate")], vec![flag.into()]).await?;
    Ok(reply.text()? == "told")
}
