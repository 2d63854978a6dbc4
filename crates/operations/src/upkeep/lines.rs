//! The lines of a sweep (H1): offers what is left to those who wait, and compares the lines of both stores.

use std::time::Instant;

use domain::ids::ActivityId;
use orders::{
    ledger::line_entries::{self, Waiting},
    stream,
};
use sale::{ledger::epochs, line, reserve::Position};
use stores::ports::{Redis, Sql, StoreError};

use crate::{
    commands::stats::{self, SkuStats},
    upkeep::report::Report,
};

/// Calls that offer units of one activity in one sweep, 100 in each.
const BATCHES: usize = 200;

/// Offers the units left of each activity in `listed` whose line has had entries. A Redis that has another number of waiting
/// buyers than the ledger, while no message is on its way, has lost some, or had none when it was restored: its sale stops, and is
/// rebuilt (G16).
///
/// # Errors
/// [`StoreError`] of the ledger. An activity that Redis fails on is recorded in the report.
pub async fn serve<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    listed: &[ActivityId],
    report: &mut Report,
) -> Result<(), StoreError> {
    let started = Instant::now();
    for (activity, expected) in line_entries::count_waiting(sql, listed).await? {
        // First: a Redis that lost the head of a line would offer to those behind it.
        let served = match is_alike(redis, sql, &activity, expected).await {
            Ok(true) => line::offer(redis, &activity, BATCHES).await,
            Ok(false) => {
                report.stopped += 1;
                continue;
            }
            Err(error) => Err(error),
        };
        match served {
            Ok(offered) => {
                report.offered += offered.orders;
                report.more |= offered.more;
            }
            Err(error) => report.add_failure(&activity, &error),
        }
    }
    report.add_time("line", started);
    Ok(())
}

/// Compares how many wait for each SKU, and stops the sale if the stores differ: the next sweep rebuilds it. Returns whether they are alike,
/// as far as what is on its way lets that be told.
async fn is_alike<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    expected: Waiting,
) -> Result<bool, StoreError> {
    let Some(found) = stats::stats(redis, activity).await? else { return Ok(true) };
    // The ledger has no number for a SKU without entries.
    let is_right = |sku: &SkuStats| sku.waiting == expected.get(&sku.sku).copied().unwrap_or_default();
    if found.stream + found.lost > 0 || found.skus.iter().all(is_right) {
        return Ok(true);
    }
    // Whoever joined or left meanwhile changed the count, too.
    let listed = std::slice::from_ref(activity);
    let now_expected = line_entries::count_waiting(sql, listed).await?.remove(activity).unwrap_or_default();
    let is_unchanged = stats::stats(redis, activity).await?.is_some_and(|now| now.enqueued == found.enqueued);
    if now_expected != expected || !is_unchanged {
        return Ok(true);
    }
    let lost = Position { epoch: epochs::load(sql, activity).await?, sequence: found.enqueued };
    stream::stop(redis, activity, lost).await?;
    Ok(false)
}
