//! Epochs (G5): every rebuild of Redis begins with a new one, in the ledger first, and what an older one accepted and the
//! ledger has not is refused from then on.

use std::collections::HashMap;

use stampede_domain::ids::ActivityId;

use super::rows::Row;
use crate::ports::{Sql, StoreError};

/// Begins a new epoch of a sale, later than the ledger's and than `seen`, the one that Redis shows. Answers it.
///
/// # Errors
/// [`StoreError`] of the ledger; an epoch that was raised and not used does no harm.
pub async fn raise<S: Sql>(sql: &S, activity: &ActivityId, seen: i64) -> Result<i64, StoreError> {
    let statement = "INSERT INTO epochs (activity, epoch) VALUES (?1, CAST(?2 AS BIGINT) + 1) \
         ON CONFLICT (activity) DO UPDATE SET epoch = 1 + CASE WHEN epochs.epoch >= CAST(?2 AS BIGINT) \
           THEN epochs.epoch ELSE CAST(?2 AS BIGINT) END RETURNING epoch";
    let rows = sql.run(statement, vec![activity.as_str().into(), seen.into()]).await?;
    rows.into_iter()
        .next()
        .map_or_else(|| Err(StoreError::Unreadable("no epoch was written".to_owned())), |row| Row::new(row).int())
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

/// The epochs of all sales.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn all<S: Sql>(sql: &S) -> Result<HashMap<String, i64>, StoreError> {
    let rows = sql.run("SELECT activity, epoch FROM epochs", Vec::new()).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Row::new(row);
            Ok((row.text()?, row.int()?))
        })
        .collect()
}
