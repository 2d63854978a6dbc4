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
    let statement = "INSERT INTO addresses (order_no, sealed, saved_at) \
         SELECT order_no, CAST(?2 AS TEXT), CAST(?3 AS BIGINT) FROM orders \
         WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > CAST(?3 AS BIGINT) \
         ON CONFLICT (order_no) DO UPDATE SET sealed = excluded.sealed, saved_at = excluded.saved_at \
         RETURNING order_no";
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
    let statement = "DELETE FROM addresses WHERE order_no IN (SELECT a.order_no FROM addresses a \
           JOIN orders o ON o.order_no = a.order_no \
           WHERE a.saved_at <= ?1 AND o.updated_at <= ?1 AND o.status NOT IN ('pending_payment', 'refunding') \
           ORDER BY a.saved_at LIMIT CAST(?2 AS BIGINT)) RETURNING order_no";
    Ok(sql.run(statement, vec![before.0.into(), limit.into()]).await?.len())
}
