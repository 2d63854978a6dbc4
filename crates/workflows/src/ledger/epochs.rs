//! Epochs (G5): every rebuild of Redis begins with a new one, in the ledger first, and what an older one accepted and the
//! ledger has not is refused from then on.

use domain::ids::ActivityId;

use super::row_reader::RowReader;
use crate::ports::{Sql, StoreError};

/// Begins a new epoch of a sale, later than `old`, the ledger's that was read, and than `seen`, the one that Redis shows.
/// Answers it; nothing where somebody else was first.
///
/// # Errors
/// [`StoreError`] of the ledger; an epoch that was raised and not used does no harm.
pub async fn raise<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    ledger_epoch: i64,
    redis_epoch: i64,
) -> Result<Option<i64>, StoreError> {
    let statement = "INSERT INTO epochs (activity, epoch) VALUES (?1, CAST(?3 AS BIGINT)) \
         ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch WHERE epochs.epoch = CAST(?2 AS BIGINT) \
         RETURNING epoch";
    let params = vec![activity.as_str().into(), ledger_epoch.into(), (ledger_epoch.max(redis_epoch) + 1).into()];
    sql.run(statement, params).await?.into_iter().next().map(|row| RowReader::new(row).int()).transpose()
}

/// Takes the ledger on to the epoch of a gate, where that is later: the ledger raised it once, and was restored from an
/// older backup since. Answers whether it was behind.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn raise_to<S: Sql>(sql: &S, activity: &ActivityId, gate_epoch: i64) -> Result<bool, StoreError> {
    let statement = "INSERT INTO epochs (activity, epoch) VALUES (?1, CAST(?2 AS BIGINT)) \
         ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch WHERE epochs.epoch < excluded.epoch \
         RETURNING epoch";
    Ok(!sql.run(statement, vec![activity.as_str().into(), gate_epoch.into()]).await?.is_empty())
}

/// The epoch of a sale; 0 for none.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn load<S: Sql>(sql: &S, activity: &ActivityId) -> Result<i64, StoreError> {
    let rows = sql.run("SELECT epoch FROM epochs WHERE activity = ?1", vec![activity.as_str().into()]).await?;
    rows.into_iter().next().map_or(Ok(0), |row| RowReader::new(row).int())
}
