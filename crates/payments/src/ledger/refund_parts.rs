//! Parts of orders' payments that operators give back while the rest stays paid (E4).
//!
//! The ledger takes a part only if all parts leave something of the payment: what is left is refunded with the order.

use domain::{ids::OrderNo, time::Millis};
use orders::ledger::order_rows::{COLUMNS, OrderRow, parse_rows};
use stores::{
    ledger::{clock::Clock, row_reader::RowReader},
    ports::{Sql, SqlValue, StoreError},
};

use super::{callback_rows::Callback, partial_refunds::returned_of_order, refunds::Refund};

/// Requests a part of a paid order, once for each `id`. Returns whether this call did.
pub async fn request<S: Sql>(
    sql: &S,
    id: &str,
    order_no: &OrderNo,
    amount: i64,
    now: Clock,
) -> Result<bool, StoreError> {
    let statement = format!(include_str!("../../sql/refunds/request_part.sql"), now = now.sql(sql.dialect()));
    let params = vec![id.into(), order_no.to_string().into(), amount.into()];
    Ok(!sql.run(&statement, params).await?.is_empty())
}

/// `paid → refunding`, by an operator: of all that is left, if that is `amount` where one is given. Returns the order if this
/// call changed it.
pub async fn request_rest<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    amount: Option<i64>,
    now: Clock,
) -> Result<Option<OrderRow>, StoreError> {
    let now = now.sql(sql.dialect());
    let is_rest =
        amount.map_or(String::new(), |_| format!("AND orders.amount - {} = CAST(?2 AS BIGINT)", returned_of_order()));
    let statement = format!(
        "UPDATE orders SET status = 'refunding', reason = 'refunded_by_operator', updated_at = {now}, \
         unsynced_since = {now} WHERE order_no = ?1 AND status = 'paid' {is_rest} RETURNING {COLUMNS}"
    );
    let params = [Some(order_no.to_string().into()), amount.map(SqlValue::from)];
    Ok(parse_rows(sql.run(&statement, params.into_iter().flatten().collect()).await?)?.pop())
}

/// Loads the amount of a part.
pub async fn load_amount<S: Sql>(sql: &S, id: &str) -> Result<Option<i64>, StoreError> {
    let rows = sql.run("SELECT amount FROM refund_parts WHERE id = ?1", vec![id.into()]).await?;
    rows.into_iter().next().map(|row| RowReader::new(row).int()).transpose()
}

/// What the ledger knows of the refund that a callback names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownPart {
    /// It is the last attempt of a part that is not confirmed.
    Current,
    /// It is the last attempt of a part, and was confirmed.
    Confirmed,
    /// It is a former attempt, which failed.
    Failed,
}

/// Finds the part that a callback is about, by the refund that it names.
pub async fn find<S: Sql>(sql: &S, callback: &Callback) -> Result<Option<KnownPart>, StoreError> {
    let statement = "SELECT CASE WHEN refund <> CAST(?2 AS TEXT) THEN 'failed' ELSE state END FROM refund_parts \
         WHERE payment = ?1 AND CAST(?2 AS TEXT) <> '' AND (refund = CAST(?2 AS TEXT) \
           OR REPLACE(failed_refunds, '[' || CAST(?2 AS TEXT) || ']', '') <> failed_refunds)";
    let params = vec![callback.payment.as_str().into(), callback.refund.as_str().into()];
    let row = sql.run(statement, params).await?.into_iter().next();
    let word = row.map(|row| RowReader::new(row).text()).transpose()?;
    Ok(word.map(|word| match word.as_str() {
        "failed" => KnownPart::Failed,
        "confirmed" => KnownPart::Confirmed,
        _ => KnownPart::Current,
    }))
}

/// Whether a callback may be about a part whose refund the provider has not named yet.
pub async fn may_be_unanswered<S: Sql>(sql: &S, callback: &Callback) -> Result<bool, StoreError> {
    let statement = "SELECT 1 FROM refund_parts WHERE payment = ?1 AND amount = ?3 AND refund = '' \
         AND state = 'requested' AND attempts > 0 AND NOT EXISTS (SELECT 1 FROM partial_refunds p \
           WHERE p.payment = ?1 AND p.refund = CAST(?2 AS TEXT))";
    let Callback { payment, refund, money, .. } = callback;
    let params = vec![payment.as_str().into(), refund.as_str().into(), money.amount.into()];
    Ok(!sql.run(statement, params).await?.is_empty())
}

/// Whether a refund that the provider names for `due` is known as another one of the payment.
pub async fn is_of_another<S: Sql>(sql: &S, due: &Refund, refund: &str) -> Result<bool, StoreError> {
    let statement = "SELECT 1 FROM refund_parts WHERE payment = ?1 AND refund = CAST(?2 AS TEXT) \
           AND id <> CAST(?3 AS TEXT) \
         UNION ALL SELECT 1 FROM refunds WHERE order_no = ?4 AND payment = ?1 AND refund = CAST(?2 AS TEXT) \
           AND CAST(?3 AS TEXT) <> ''";
    let params = [&due.payment, refund, &due.part, &due.order_no].map(SqlValue::from).into();
    Ok(!refund.is_empty() && !sql.run(statement, params).await?.is_empty())
}

/// Records that the refund that a callback names has succeeded.
pub async fn confirm<S: Sql>(sql: &S, callback: &Callback) -> Result<(), StoreError> {
    let statement = "UPDATE refund_parts SET state = 'confirmed', last_error = '' WHERE payment = ?1 AND refund = ?2";
    sql.run(statement, vec![callback.payment.as_str().into(), callback.refund.as_str().into()]).await.map(|_| ())
}

/// Records that a part is returned by a refund that has no id.
pub async fn confirm_by_id<S: Sql>(sql: &S, id: &str) -> Result<(), StoreError> {
    let statement = "UPDATE refund_parts SET state = 'confirmed', last_error = '' WHERE id = ?1";
    sql.run(statement, vec![id.into()]).await.map(|_| ())
}

/// Records that the refund that a callback names has failed, and requests the part again `at` a time, as a new refund.
pub async fn record_failure<S: Sql>(sql: &S, callback: &Callback, at: Millis) -> Result<(), StoreError> {
    let statement = "UPDATE refund_parts SET state = 'requested', failures = failures + 1, refund = '', \
         failed_refunds = failed_refunds || '[' || CAST(?2 AS TEXT) || ']', next_try_at = ?3, \
         last_error = 'the provider said no' WHERE payment = ?1 AND refund = ?2 AND state <> 'confirmed'";
    let params = vec![callback.payment.as_str().into(), callback.refund.as_str().into(), at.0.into()];
    sql.run(statement, params).await.map(|_| ())
}
