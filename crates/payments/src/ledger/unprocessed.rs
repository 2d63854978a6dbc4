//! Callbacks that are recorded and not applied completely, which sweeps try again.

use domain::time::Millis;
use serde_json::{Value, json};
use stores::ports::{Dialect, Sql, StoreError};

use super::callback_rows::{CALLBACK_COLUMNS, Callback, parse_row};

/// Loads up to `limit` callbacks without an outcome that are due at `now`; those that have waited longest come first. A row
/// that another transaction has locked is left out: to [`defer`] it would take as long.
pub async fn load_due<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<Callback>, StoreError> {
    let skip_locked = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR NO KEY UPDATE SKIP LOCKED",
    };
    let statement = format!(
        "SELECT {CALLBACK_COLUMNS} FROM callbacks WHERE outcome = '' AND next_try_at <= ?1 ORDER BY next_try_at \
         LIMIT CAST(?2 AS BIGINT) {skip_locked}"
    );
    sql.run(&statement, vec![now.0.into(), limit.into()]).await?.into_iter().map(parse_row).collect()
}

/// Sets when sweeps try callbacks again, by their ids. Those that `failed` wait from `now` on for 5 s, which grow with each
/// failure to 10 minutes. Those that the sweep `skipped` are due in the next one.
pub async fn defer<S: Sql>(sql: &S, failed: &[&str], skipped: &[&str], now: Millis) -> Result<(), StoreError> {
    let rows: Vec<_> = failed.iter().map(|id| json!([id, 1])).chain(skipped.iter().map(|id| json!([id, 0]))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let (json_rows, [id, failures, _]) = sql.dialect().json_rows("?1");
    let statement = format!(
        include_str!("../../sql/payments/defer_callbacks.sql"),
        json_rows = json_rows,
        id = id,
        failures = failures,
    );
    sql.run(&statement, vec![Value::from(rows).to_string().into(), now.0.into()]).await.map(|_| ())
}
