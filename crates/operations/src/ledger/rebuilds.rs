//! Rebuilds that have begun and not ended (G5), with the position of their backfill.
//!
//! The position is in the ledger, not in Redis: the backfill writes to the ledger, and a ledger that is restored from a
//! backup loses the position with the rows.

use domain::{ids::ActivityId, time::Millis};
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

/// A rebuild that has begun, and how far its backfill is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunRebuild {
    /// The version of the activity. A backfill starts over if an operator changed the activity.
    pub version: i64,
    /// The epoch before the rebuild: the later one of ledger and gate.
    pub epoch: i64,
    /// The pass of the backfill over the order records.
    pub pass: i64,
    /// The number of orders that this pass has compared.
    pub position: i64,
    /// Whether a later pass has orders to write.
    pub live_orders_differ: bool,
    /// When it was found that Redis has lost orders; 0 if it has not (G16).
    pub lost_at: Millis,
}

/// Begins a rebuild, or continues a rebuild that began in the same `epoch` with the same `version`. The sweeper continues
/// it from `due_at` on.
pub async fn begin<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    version: i64,
    epoch: i64,
    due_at: Millis,
    lost_at: Millis,
) -> Result<BegunRebuild, StoreError> {
    let statement = include_str!("../../sql/rebuilds/begin.sql");
    let params = vec![activity.as_str().into(), version.into(), epoch.into(), due_at.0.into(), lost_at.0.into()];
    let mut row = RowReader::new(sql.run(statement, params).await?.into_iter().next().unwrap_or_default());
    Ok(BegunRebuild {
        version: row.int()?,
        epoch: row.int()?,
        pass: row.int()?,
        position: row.int()?,
        live_orders_differ: row.int()? == 1,
        lost_at: Millis(row.int()?),
    })
}

/// Has the sweeper begin a rebuild at `due_at`, unless one has begun or is due.
pub async fn schedule<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    version: i64,
    epoch: i64,
    due_at: Millis,
    lost_at: Millis,
) -> Result<(), StoreError> {
    let statement = "INSERT INTO rebuilds (activity, version, epoch, due_at, lost_at) VALUES (?1, CAST(?2 AS BIGINT), \
         CAST(?3 AS BIGINT), CAST(?4 AS BIGINT), CAST(?5 AS BIGINT)) ON CONFLICT (activity) DO NOTHING";
    let params = vec![activity.as_str().into(), version.into(), epoch.into(), due_at.0.into(), lost_at.0.into()];
    sql.run(statement, params).await.map(|_| ())
}

/// Moves the backfill from `from` to `to`. Does nothing if another request has moved it.
pub async fn advance<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    from: &BegunRebuild,
    to: &BegunRebuild,
) -> Result<(), StoreError> {
    let statement = "UPDATE rebuilds SET pass = ?6, position = ?7, live_orders_differ = ?8 WHERE activity = ?1 \
         AND version = ?2 AND epoch = ?3 AND pass = ?4 AND position = ?5";
    let mut params: Vec<SqlValue> = vec![activity.as_str().into(), from.version.into(), from.epoch.into()];
    params.extend([from.pass, from.position, to.pass, to.position].map(SqlValue::from));
    params.push(to.live_orders_differ.into());
    sql.run(statement, params).await.map(|_| ())
}

/// Ends a rebuild.
pub async fn end<S: Sql>(sql: &S, activity: &ActivityId) -> Result<(), StoreError> {
    sql.run("DELETE FROM rebuilds WHERE activity = ?1", vec![activity.as_str().into()]).await.map(|_| ())
}

/// Lists the rebuilds that are due at `now`, each with its epoch, the longest waiting first.
pub async fn list_due<S: Sql>(sql: &S, now: Millis) -> Result<Vec<(ActivityId, i64)>, StoreError> {
    let statement = "SELECT activity, epoch FROM rebuilds WHERE due_at <= ?1 ORDER BY due_at, activity";
    let rows = sql.run(statement, vec![now.0.into()]).await?.into_iter().map(RowReader::new);
    rows.map(|mut row| Ok((row.parse(ActivityId::parse)?, row.int()?))).collect()
}
