//! How the stock of sales went, sweep by sweep (G2, G22). A trigger keeps the rows of a SKU few.

use domain::{
    http::problem::{FieldError, Problem},
    ids::{ActivityId, SkuId},
    time::Millis,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

/// The units of a SKU at one time, by the ledger: orders in the queue are still among those left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HistoryEntry {
    /// When a sweep saw them.
    pub time: Millis,
    /// The SKU.
    #[schemars(with = "SkuId")]
    pub sku: String,
    /// Units left; -1 if unlimited.
    #[schemars(range(min = -1))]
    pub left: i64,
    /// Units of orders that wait for payment.
    pub held: i64,
    /// Units sold.
    pub sold: i64,
}

impl HistoryEntry {
    /// Names it in a list.
    #[must_use]
    pub fn cursor(&self) -> String {
        format!("{}/{}", self.time.0, self.sku)
    }
}

/// Parses the [`HistoryEntry::cursor`] of an entry.
///
/// # Errors
/// `invalid_request` if it is none.
pub fn parse_cursor(text: &str) -> Result<(Millis, &str), Problem> {
    let parsed = text.split_once('/').and_then(|(time, sku)| Some((Millis(time.parse().ok()?), sku)));
    parsed.ok_or_else(|| Problem::invalid(vec![FieldError::new("?before", "must be the next of a page")]))
}

/// Records each SKU of the activities in `listed` whose units differ from its last entry.
pub async fn record<S: Sql>(sql: &S, listed: &[ActivityId], now: Millis) -> Result<(), StoreError> {
    let json_values = sql.dialect().json_values("?2");
    let statement = format!(include_str!("../../sql/history/record.sql"), json_values = json_values);
    sql.run(&statement, vec![now.0.into(), json!(listed).to_string().into()]).await.map(|_| ())
}

/// Lists up to `limit` entries of an activity, newest first; with `before`, those after that one.
pub async fn list<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    before: Option<(Millis, &str)>,
    limit: i64,
) -> Result<Vec<HistoryEntry>, StoreError> {
    let statement = "SELECT recorded_at, sku, units_left, held, sold FROM sale_history \
         WHERE activity = ?1 AND (recorded_at, sku) < (CAST(?2 AS BIGINT), CAST(?3 AS TEXT)) \
         ORDER BY recorded_at DESC, sku DESC LIMIT CAST(?4 AS BIGINT)";
    let (time, sku) = before.unwrap_or((Millis(i64::MAX), ""));
    let rows = sql.run(statement, vec![activity.as_str().into(), time.0.into(), sku.into(), limit.into()]).await?;
    let parse_row = |row| {
        let mut row = RowReader::new(row);
        let (time, sku) = (Millis(row.int()?), row.text()?);
        Ok(HistoryEntry { time, sku, left: row.int()?, held: row.int()?, sold: row.int()? })
    };
    rows.into_iter().map(parse_row).collect()
}
