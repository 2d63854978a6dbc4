//! Erases old activities from the ledger, with their orders (G12, `retention_days`).
//!
//! An activity is erased only after its Redis data is gone and nothing of it is alive. Its state becomes `erasing` first:
//! from then on operators cannot change it, and the schema allows to delete its orders. Each statement deletes a bounded
//! number of rows, orders last; an erasure that stops anywhere is continued by the next call. Rehearsals that an operator
//! deleted are erased in the same way, old or not (G21). Before the activity itself is
//! deleted, its copy in key-value is overwritten, if that store works. The activity's epoch
//! stays: if its id is used again, old messages and gates are fenced.

use domain::{ids::ActivityId, time::Millis};
use payments::ledger::callback_outcomes::unparked_outcomes;
use sale::visitors::CachedActivity;
use stores::{
    ledger::{deletion::delete_batch, row_reader::RowReader},
    ports::{Dialect, KeyValue, Sql, SqlValue, StoreError},
    shared_value,
};

/// Maximum number of activities whose erasure begins in one call.
const MAX_ACTIVITIES: i64 = 10;

/// Erases deleted rehearsals, and activities that ended, were last changed, and whose orders were last changed at or before
/// `before`, in up to `batches` batches of up to `limit` rows of a table, while `has_time`. Returns how many orders and how
/// many activities were erased.
///
/// # Errors
/// [`StoreError`]; the next call continues.
pub async fn erase_old<S: Sql, K: KeyValue>(
    sql: &S,
    key_value: &K,
    before: Millis,
    limit: i64,
    batches: usize,
    has_time: &dyn Fn() -> bool,
) -> Result<(usize, usize), StoreError> {
    mark(sql, before).await?;
    let marked = "SELECT id FROM activities WHERE state = 'erasing' ORDER BY id";
    let (mut orders, mut activities, mut batches) = (0, 0, batches);
    for row in sql.run(marked, Vec::new()).await? {
        let activity = RowReader::new(row).parse(ActivityId::parse)?;
        if batches > 0 && has_time() {
            shared_value::forget(key_value, &CachedActivity::key(&activity)).await;
        }
        while batches > 0 && has_time() {
            batches -= 1;
            let erased = erase_orders(sql, &activity, before, limit).await?;
            orders += erased;
            if erased > 0 || erase_records(sql, &activity, limit).await? > 0 {
                continue;
            }
            activities += usize::from(finish(sql, &activity).await?);
            break;
        }
    }
    Ok((orders, activities))
}

/// Marks activities of which nothing is alive: no order waits for payment or a refund, and no callback, refund or event
/// waits.
async fn mark<S: Sql>(sql: &S, before: Millis) -> Result<(), StoreError> {
    let statement = format!(
        include_str!("../../sql/erasure/mark.sql"),
        activity_of = activity_of(sql.dialect()),
        unparked_outcomes = unparked_outcomes(),
    );
    let params = vec![before.0.into(), MAX_ACTIVITIES.into()];
    sql.run(&statement, params).await.map(|_| ())
}

/// The activity of `w.order_no`, in SQL.
pub(crate) fn activity_of(dialect: Dialect) -> &'static str {
    match dialect {
        // The subject of an event about the activity has no full stop.
        Dialect::Sqlite => "substr(w.order_no, 1, instr(w.order_no || '.', '.') - 1)",
        Dialect::Postgres => "split_part(w.order_no, '.', 1)",
    }
}

/// The bounds of the order numbers of an activity: see [`orders::ledger::order_rows::load_page`].
pub(crate) fn bounds(activity: &ActivityId) -> [SqlValue; 2] {
    [format!("{activity}.").into(), format!("{activity}/").into()]
}

/// Deletes up to `limit` closed orders of a marked activity with their addresses, sessions and refunds. A payment that
/// came late changes its order, which then stays until it is old again. An order of a rehearsal need not be old, unless it
/// has a real payment that was not given back. Returns how many orders were deleted.
async fn erase_orders<S: Sql>(sql: &S, activity: &ActivityId, before: Millis, limit: i64) -> Result<usize, StoreError> {
    const OLD: &str = "status NOT IN ('pending_payment', 'refunding') AND (updated_at <= ?1 \
         OR activity IN (SELECT r.activity FROM rehearsals r) AND (status <> 'paid' OR amount = 0 OR provider = 'sandbox'))";
    let [start, end] = bounds(activity);
    let select = format!(
        "SELECT COUNT(*), {} FROM (SELECT order_no FROM orders WHERE {OLD} AND order_no > ?2 AND order_no < ?3 \
         ORDER BY order_no LIMIT CAST(?4 AS BIGINT)) AS o",
        sql.dialect().json_array_of("o.order_no")
    );
    let rows = sql.run(&select, vec![before.0.into(), start, end, limit.into()]).await?;
    let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
    let (count, order_numbers) = (usize::try_from(row.int()?).unwrap_or_default(), row.text()?);
    if count == 0 {
        return Ok(0);
    }
    let kept =
        format!(include_str!("../../sql/erasure/keep_payments.sql"), order_numbers = sql.dialect().json_values("?1"));
    sql.run(&kept, vec![order_numbers.as_str().into()]).await?;
    for (table, done) in [("addresses", ""), ("sessions", ""), ("refunds", "AND state = 'confirmed'")] {
        let statement = format!("DELETE FROM {table} WHERE order_no IN ({}) {done}", sql.dialect().json_values("?1"));
        sql.run(&statement, vec![order_numbers.as_str().into()]).await?;
    }
    let statement = format!("DELETE FROM orders WHERE {OLD} AND order_no IN ({})", sql.dialect().json_values("?2"));
    sql.run(&statement, vec![before.0.into(), order_numbers.into()]).await?;
    Ok(count)
}

/// Deletes up to `limit` rows each of the history, presale codes and their users, events, processed callbacks, confirmed overpayments, partial refunds, disputes that
/// ended, dead letters and entries of lines of an activity. Returns how many.
async fn erase_records<S: Sql>(sql: &S, activity: &ActivityId, limit: i64) -> Result<usize, StoreError> {
    let mut erased = 0;
    let [start, end] = bounds(activity);
    let kept = include_str!("../../sql/erasure/keep_overpayments.sql");
    sql.run(kept, vec![activity.as_str().into(), start, end]).await?;
    for (table, key) in [
        ("sale_history", "activity, sku, recorded_at"),
        ("presale_codes", "activity, code"),
        ("presale_users", "activity, user_id, code"),
    ] {
        erased += delete_batch(sql, table, key, "activity = ?1", vec![activity.as_str().into(), limit.into()]).await?;
    }
    for (table, key, order_no, done) in records() {
        let [start, end] = bounds(activity);
        let condition = format!("{order_no} > ?1 AND {order_no} < ?2 AND {done}");
        erased += delete_batch(sql, table, key, &condition, vec![start, end, limit.into()]).await?;
    }
    Ok(erased)
}

/// The tables of an activity's records, their keys and columns of order numbers, and what is true of the rows that can
/// be erased. The trigger that deletes an activity's SKUs deletes the events about the activity itself.
fn records() -> [(&'static str, &'static str, &'static str, String); 8] {
    [
        ("events", "subject, step", "subject", "state <> 'waiting'".to_owned()),
        ("callbacks", "id", "order_no", format!("outcome <> '' AND outcome IN {}", unparked_outcomes())),
        ("overpayments", "payment", "order_no", "state = 'confirmed'".to_owned()),
        ("refund_parts", "id", "order_no", "state = 'confirmed'".to_owned()),
        ("partial_refunds", "payment, refund", "order_no", "1 = 1".to_owned()),
        ("disputes", "dispute", "order_no", "status <> 'open'".to_owned()),
        ("dead_letters", "order_no", "order_no", "1 = 1".to_owned()),
        ("line_entries", "order_no", "order_no", "1 = 1".to_owned()),
    ]
}

/// Deletes a marked activity that has no orders and no records to erase any more: without its row, no later call would find
/// them. Returns whether it was deleted.
async fn finish<S: Sql>(sql: &S, activity: &ActivityId) -> Result<bool, StoreError> {
    let no_records: String = records()
        .iter()
        .map(|(table, _, order_no, done)| {
            format!(
                " AND NOT EXISTS (SELECT 1 FROM {table} r WHERE r.{order_no} > ?2 AND r.{order_no} < ?3 AND {done})"
            )
        })
        .collect();
    let statement = format!(
        "DELETE FROM activities WHERE id = ?1 AND state = 'erasing' \
         AND NOT EXISTS (SELECT 1 FROM sale_history h WHERE h.activity = ?1) \
         AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_no > ?2 AND o.order_no < ?3){no_records} RETURNING id"
    );
    let [start, end] = bounds(activity);
    Ok(!sql.run(&statement, vec![activity.as_str().into(), start, end]).await?.is_empty())
}
