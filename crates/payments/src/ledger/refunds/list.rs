//! Refunds for operators.

use domain::ids::OrderNo;
use stores::ports::{Sql, SqlValue, StoreError};

use super::{Refund, RefundKind, columns, parse_rows, query};

impl RefundKind {
    /// Names it in a list.
    fn name(self) -> &'static str {
        match self {
            RefundKind::Orders => "orders",
            RefundKind::Overpayments => "overpayments",
            RefundKind::Parts => "parts",
        }
    }
}

impl Refund {
    /// Names it in a list: its kind and key.
    #[must_use]
    pub fn cursor(&self) -> String {
        format!("{}/{}", self.kind.name(), self.key())
    }
}

/// Lists up to `limit` unconfirmed refunds for operators: those of orders first, by number, then overpayments by payment, then
/// parts. Begins after the one with the cursor `before`, unless it is empty.
pub async fn list_unconfirmed<S: Sql>(sql: &S, before: &str, limit: i64) -> Result<Vec<Refund>, StoreError> {
    let (before_kind, before_key) = before.split_once('/').unwrap_or_default();
    let mut found: Vec<Refund> = Vec::new();
    let first = RefundKind::ALL.into_iter().position(|kind| kind.name() == before_kind).unwrap_or_default();
    for kind in RefundKind::ALL.into_iter().skip(first) {
        let (table, key) = (kind.table(), kind.key_column());
        let mut params: Vec<SqlValue> = vec![(limit - found.len() as i64).into()];
        let mut older = String::new();
        if kind.name() == before_kind {
            params.push(before_key.into());
            older = format!("AND {key} < ?2");
        }
        let statement = format!(
            "SELECT {} FROM {table} WHERE state <> 'confirmed' {older} ORDER BY {key} DESC \
             LIMIT CAST(?1 AS BIGINT)",
            columns(kind)
        );
        found.extend(parse_rows(kind, sql.run(&statement, params).await?)?);
    }
    Ok(found)
}

/// Lists all refunds that name an order.
pub async fn list_for_order<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Vec<Refund>, StoreError> {
    query(sql, "order_no = ?1", vec![order_no.to_string().into()]).await
}
