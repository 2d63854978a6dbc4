//! Epochs (G5): every rebuild of Redis begins with a new one, in the ledger first, and what an older one accepted and the
//! ledger has not is refused from then on.

use domain::ids::ActivityId;

use super::rows::Row;
use crate::ports::{Sql, StoreError};

/// Begins a new epoch of a sale, later than `old`, the ledger's that was read, and than `seen`, the one that Redis shows.
/// Answers it; nothing where somebody else was first.
///
/// # Errors
/// [`StoreError`] of the ledger; an epoch that was raised and not used does no harm.
pub async fn raise<S: Sql>(sql: &S, activity: &ActivityId, old: i64, seen: i64) -> Result<Option<i64>, StoreError> {
    let statement = "INSERT INTO epochs (activity, epoch) VALUES (?1, CAST(?3 AS BIGINT)) \
         ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch WHERE epochs.epoch = CAST(?2 AS BIGINT) \
         RETURNING epoch";
    let params = vec![activity.as_str().into(), old.into(), (old.max(seen) + 1).into()];
    sql.run(statement, params).await?.into_iter().next().map(|row| Row::new(row).int()).transpose()
}

/// Takes the ledger on to the epoch of a gate, where that is later: the ledger raised it once, and was restored from an
/// older backup since. Answers whether it was behind.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn catch_up<S: Sql>(sql: &S, activity: &ActivityId, gate: i64) -> Result<bool, StoreError> {
    let statement = "INSERT INTO epochs (activity, epoch) VALUES (?1, CAST(?2 AS BIGINT)) \
         ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch WHERE epochs.epoch < excluded.epoch \
         RETURNING epoch";
    Ok(!sql.run(statement, vec![activity.as_str().into(), gate.into()]).await?.is_empty())
}

/// The epoch of a sale; 0 for none.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn current<S: Sql>(sql: &S, activity: &ActivityId) -> Result<i64, StoreError> {
    let rows = sql.run("SELECT epoch FROM epochs WHERE activity = ?1", vec![activity.as_str().into()]).await?;
    rows.into_iter().next().map_or(Ok(0), |row| Row::new(row).int())
}
