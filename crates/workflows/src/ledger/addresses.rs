//! Encrypted delivery addresses in the ledger (E1). The ledger does not have the key.

use domain::{ids::OrderNo, time::Millis};

use super::row_reader::RowReader;
use crate::ports::{Sql, StoreError};

/// Saves the encrypted address of an order that can still be paid, in place of an earlier one. Returns `false` if the
/// order cannot be paid.
///
/// # Errors
/// See [`ledger`](super).
pub async fn save<S: Sql>(sql: &S, order_no: &OrderNo, sealed: &str, now: Millis) -> Result<bool, StoreError> {
    let statement = include_str!("../../sql/queries/addresses/save.sql");
    let params = vec![order_no.to_string().into(), sealed.into(), now.0.into()];
    Ok(!sql.run(statement, params).await?.is_empty())
}

/// Loads the encrypted address of an order; `None` if it has none, or it was erased.
///
/// # Errors
/// See [`ledger`](super).
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<String>, StoreError> {
    let rows = sql.run("SELECT sealed FROM addresses WHERE order_no = ?1", vec![order_no.to_string().into()]).await?;
    rows.into_iter().next().map(|row| RowReader::new(row).text()).transpose()
}

/// Erases up to `limit` addresses that were saved at or before `before`, of orders that have not changed since. The
/// addresses of orders in `pending_payment` or `refunding` are still needed and stay. Returns how many were erased.
///
/// # Errors
/// See [`ledger`](super).
pub async fn erase<S: Sql>(sql: &S, before: Millis, limit: i64) -> Result<usize, StoreError> {
    let statement = include_str!("../../sql/queries/addresses/erase.sql");
    Ok(sql.run(statement, vec![before.0.into(), limit.into()]).await?.len())
}
