//! Epochs in the ledger (G5): generations of an activity's Redis data.
//!
//! Every rebuild of Redis starts by raising the epoch in the ledger. Orders that an older epoch accepted and the ledger
//! does not have are refused from then on.

use domain::{ids::ActivityId, time::Millis};
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

/// Starts a new epoch, later than `ledger_epoch`, which was read from the ledger, and than `redis_epoch`, which was
/// read from the gate. With a `lost_at` above 0, counts one more loss of Redis (G16), and a trigger inserts an event. Returns the
/// new epoch, or `None` if another rebuild has raised it since.
///
/// # Errors
/// See [`ledger`](super). An epoch that was raised and never used does no harm.
pub async fn raise<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    ledger_epoch: i64,
    redis_epoch: i64,
    lost_at: Millis,
) -> Result<Option<i64>, StoreError> {
    let statement = include_str!("../../sql/epochs/raise.sql");
    let new_epoch = ledger_epoch.max(redis_epoch) + 1;
    let params = vec![activity.as_str().into(), ledger_epoch.into(), new_epoch.into(), lost_at.0.into()];
    sql.run(statement, params).await?.into_iter().next().map(|row| RowReader::new(row).int()).transpose()
}

/// Raises the ledger's epoch to that of a later gate: the ledger had that epoch, and was restored from an older backup.
/// Returns whether the ledger was behind.
pub async fn raise_to<S: Sql>(sql: &S, activity: &ActivityId, gate_epoch: i64) -> Result<bool, StoreError> {
    let statement = include_str!("../../sql/epochs/raise_to.sql");
    Ok(!sql.run(statement, vec![activity.as_str().into(), gate_epoch.into()]).await?.is_empty())
}

/// Loads the epoch of an activity; 0 if it has none.
pub async fn load<S: Sql>(sql: &S, activity: &ActivityId) -> Result<i64, StoreError> {
    let rows = sql.run("SELECT epoch FROM epochs WHERE activity = ?1", vec![activity.as_str().into()]).await?;
    rows.into_iter().next().map_or(Ok(0), |row| RowReader::new(row).int())
}
