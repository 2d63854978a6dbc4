//! Orders whose last change Redis has not confirmed.

use domain::{
    ids::{ActivityId, OrderNo},
    order::OrderStatus,
    time::Millis,
};
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

use crate::order_record::{OrderState, Transition};

/// Loads up to `limit` orders of an activity whose last change happened until `before`, and which Redis has not
/// confirmed since, as the transitions that Redis is to have. Orders with the same state share one row, as in
/// [`load_states`](super::order_rows::load_states).
pub async fn load<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    before: Millis,
    limit: i64,
) -> Result<Vec<Transition>, StoreError> {
    let order_numbers = sql.dialect().json_array_of("o.order_no");
    let statement = format!(include_str!("../../sql/unsynced/load.sql"), order_numbers = order_numbers);
    let rows = sql.run(&statement, vec![activity.as_str().into(), before.0.into(), limit.into()]).await?;
    let mut transitions = Vec::new();
    for row in rows {
        let mut row = RowReader::new(row);
        let status = row.parse(|text| OrderStatus::parse(text).ok_or(()))?;
        let (live, pay_by, paid_at) = (row.int()? == 1, Millis(row.int()?), Millis(row.int()?));
        let (reason, refunded, epoch) = (row.text()?, row.int()?, row.int()?);
        let state = OrderState { epoch, status, live, pay_by, paid_at, reason, refunded };
        let order_numbers: Vec<OrderNo> = row.parse(|text| serde_json::from_str(text))?;
        transitions.extend(order_numbers.into_iter().map(|order_no| Transition {
            order_no,
            state: state.clone(),
            stream_id: String::new(),
        }));
    }
    Ok(transitions)
}

/// Sets since when Redis has not confirmed the last change of these orders: `since`, or 0 if it has. Orders that have
/// changed since they were loaded with [`load`] and this `before` stay as they are.
pub async fn set_since<S: Sql>(
    sql: &S,
    transitions: &[&Transition],
    before: Millis,
    since: Millis,
) -> Result<(), StoreError> {
    if transitions.is_empty() {
        return Ok(());
    }
    let to_json = |t: &&Transition| json!([t.order_no.to_string(), t.state.status.as_str(), t.state.pay_by.0]);
    let rows: Vec<_> = transitions.iter().map(to_json).collect();
    let (json_rows, [order_no, status, pay_by]) = sql.dialect().json_rows("?1");
    let statement = format!(
        include_str!("../../sql/unsynced/set_since.sql"),
        json_rows = json_rows,
        order_no = order_no,
        status = status,
        pay_by = pay_by,
    );
    let params = vec![serde_json::Value::from(rows).to_string().into(), since.0.into(), before.0.into()];
    sql.run(&statement, params).await.map(|_| ())
}

/// Marks orders of which Redis may have an older state, whatever has changed them since they were loaded.
pub async fn mark<S: Sql>(sql: &S, orders: &[&OrderNo], since: Millis) -> Result<(), StoreError> {
    let order_numbers: Vec<_> = orders.iter().map(ToString::to_string).collect();
    let json_values = sql.dialect().json_values("?1");
    let statement = format!("UPDATE orders SET unsynced_since = ?2 WHERE order_no IN ({json_values})");
    sql.run(&statement, vec![json!(order_numbers).to_string().into(), since.0.into()]).await.map(|_| ())
}
