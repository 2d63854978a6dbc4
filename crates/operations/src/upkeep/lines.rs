//! The lines of a sweep (H1): offers what is left to those who wait, and compares the lines of both stores.

use domain::ids::ActivityId;
use orders::{ledger::line_entries, stream};
use sale::{ledger::epochs, line, reserve::Position};
use stores::ports::{Redis, Sql, StoreError};

use crate::{commands::stats, upkeep::report::Report};

/// Calls that offer units of one activity in one sweep, 100 in each.
const BATCHES: usize = 200;

/// Offers the units left of each activity in `listed` in which somebody waits. A Redis that does not have as many who wait as
/// the ledger, while nothing is on its way, has lost some, or had none when it was restored: its sale stops, and is rebuilt
/// (G16).
///
/// # Errors
/// [`StoreError`] of the ledger. An activity that Redis fails on is recorded in the report.
pub async fn serve<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    listed: &[ActivityId],
    report: &mut Report,
) -> Result<(), StoreError> {
    let expected = line_entries::count_waiting(sql).await?;
    for (activity, expected) in expected.into_iter().filter(|(activity, _)| listed.contains(activity)) {
        match line::offer(redis, &activity, BATCHES).await {
            Ok(offered) => {
                report.offered += offered.orders;
                report.more |= offered.more;
            }
            Err(error) => {
                report.add_failure(&activity, &error);
                continue;
            }
        }
        if let Err(error) = compare(redis, sql, &activity, expected).await {
            report.add_failure(&activity, &error);
        }
    }
    Ok(())
}

async fn compare<R: Redis, S: Sql>(redis: &R, sql: &S, activity: &ActivityId, expected: i64) -> Result<(), StoreError> {
    let Some(found) = stats::stats(redis, activity).await? else { return Ok(()) };
    let waiting: i64 = found.skus.iter().map(|sku| sku.waiting).sum();
    if found.stream + found.lost > 0 || waiting == expected {
        return Ok(());
    }
    // Whoever joined or left meanwhile changed the count, too.
    if line_entries::count_waiting(sql).await?.get(activity).copied().unwrap_or_default() != expected {
        return Ok(());
    }
    let lost = Position { epoch: epochs::load(sql, activity).await?, sequence: found.enqueued };
    stream::stop(redis, activity, lost).await
}
