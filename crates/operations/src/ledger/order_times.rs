//! Times of an order's life that its row, its session and its refund keep.

use domain::{ids::OrderNo, time::Millis};
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
    reply::non_zero_time,
};

/// Times of an order's life; `None` for what did not happen, or is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderTimes {
    /// When the order writer inserted it.
    pub written_at: Option<Millis>,
    /// Whether its buyer cancelled it, also if it was paid later.
    pub was_cancelled: bool,
    /// When its latest payment session was opened.
    pub session_opened_at: Option<Millis>,
    /// When its refund was requested, or was reported by the provider.
    pub refund_requested_at: Option<Millis>,
}

/// Loads the times of an order.
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<OrderTimes, StoreError> {
    let statement = "SELECT o.written_at, o.was_cancelled, s.opened_at, r.requested_at FROM orders o \
         LEFT JOIN sessions s ON s.order_no = o.order_no LEFT JOIN refunds r ON r.order_no = o.order_no \
         WHERE o.order_no = ?1";
    let rows = sql.run(statement, vec![order_no.to_string().into()]).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(OrderTimes::default()) };
    let mut row = RowReader::new(row);
    Ok(OrderTimes {
        written_at: non_zero_time(row.int()?),
        was_cancelled: row.int()? == 1,
        session_opened_at: non_zero_time(row.int()?),
        refund_requested_at: non_zero_time(row.int()?),
    })
}
