//! Deletion of rows that are past their retention time, in batches.

use super::row_reader::RowReader;
use crate::ports::{Sql, SqlValue, StoreError};

/// Deletes rows of `table` with the primary key `key` for which `condition` holds; the last of `params` is the maximum
/// number. Returns how many were found.
///
/// The rows are counted before: while a function reads rows that a statement has deleted, SQLite keeps all others from
/// writing.
pub async fn delete_batch<S: Sql>(
    sql: &S,
    table: &str,
    key: &str,
    condition: &str,
    params: Vec<SqlValue>,
) -> Result<usize, StoreError> {
    let limit = params.len();
    let found = format!("SELECT {key} FROM {table} WHERE {condition} LIMIT CAST(?{limit} AS BIGINT)");
    let count = count(sql, &found, params.clone()).await?;
    if count > 0 {
        // The condition stands in the outer statement, too: a row that another statement changes meanwhile stays.
        let statement = format!("DELETE FROM {table} WHERE {condition} AND ({key}) IN ({found})");
        sql.run(&statement, params).await?;
    }
    Ok(count)
}

/// Counts the rows of a query.
pub async fn count<S: Sql>(sql: &S, query: &str, params: Vec<SqlValue>) -> Result<usize, StoreError> {
    let rows = sql.run(&format!("SELECT COUNT(*) FROM ({query}) AS found"), params).await?;
    let count = RowReader::new(rows.into_iter().next().unwrap_or_default()).int()?;
    Ok(usize::try_from(count).unwrap_or_default())
}
