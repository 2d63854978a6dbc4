//! What the shop is told of its sales (E7): a trigger makes each recorded change an event.

use domain::{ids::ActivityId, time::Millis};
use serde_json::json;
use stores::ports::{Sql, StoreError};

/// Records what time and orders changed since the last sweep: which activities in `listed` opened or ended, and which of
/// their SKUs have nothing left, or something again. A SKU changes at most once, however often it did meanwhile. What
/// another process changes at the same time is left to the next sweep.
pub async fn record<S: Sql>(sql: &S, listed: &[ActivityId], now: Millis) -> Result<(), StoreError> {
    let json_values = sql.dialect().json_values("?2");
    let statement = format!(include_str!("../../sql/sales/record_states.sql"), json_values = json_values);
    sql.run(&statement, vec![now.0.into(), json!(listed).to_string().into()]).await.map(|_| ())
}
