//! Switches that operators or their variables set, for triggers and for settings that must outlive Redis.

use crate::ports::{Sql, SqlValue, StoreError};

/// Turns a switch on or off. Writes nothing if it is in that position already.
pub async fn set<S: Sql>(sql: &S, name: &str, on: bool) -> Result<(), StoreError> {
    if is_on(sql, name).await? == on {
        return Ok(());
    }
    let statement = "INSERT INTO switches (name, is_on) VALUES (?1, ?2) \
         ON CONFLICT (name) DO UPDATE SET is_on = excluded.is_on";
    sql.run(statement, vec![name.into(), on.into()]).await.map(|_| ())
}

/// Whether a switch is on; one that was never set is off.
pub async fn is_on<S: Sql>(sql: &S, name: &str) -> Result<bool, StoreError> {
    let rows = sql.run("SELECT is_on FROM switches WHERE name = ?1", vec![name.into()]).await?;
    Ok(rows.first().is_some_and(|row| row == &[SqlValue::from(true)]))
}
