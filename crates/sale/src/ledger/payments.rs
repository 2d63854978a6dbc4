//! Callbacks, payments and refunds in the ledger.

use stampede_domain::{ids::OrderNo, time::Millis, webhook::Payment};

use super::{
    orders::{COLUMNS, Entry, read_all},
    rows::Row,
};
use crate::ports::{Sql, StoreError, Value};

/// A callback as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The event's id.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// The order that it names.
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// What was done about it; empty while nothing was.
    pub outcome: String,
}

const CALLBACK: &str = "id, type, order_no, payment, amount, currency, outcome";

fn read(row: Vec<Value>) -> Result<Callback, StoreError> {
    let mut row = Row::new(row);
    Ok(Callback {
        id: row.text()?,
        kind: row.text()?,
        order_no: row.text()?,
        payment: row.text()?,
        amount: row.int()?,
        currency: row.text()?,
        outcome: row.text()?,
    })
}

/// Writes a callback down, once; answers it as it stands.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn note<S: Sql>(sql: &S, event: &Payment, now: Millis) -> Result<Callback, StoreError> {
    let params = vec![
        event.id.as_str().into(),
        event.kind.as_str().into(),
        event.order_no.as_str().into(),
        event.payment.as_str().into(),
        event.amount.into(),
        event.currency.as_str().into(),
        now.0.into(),
    ];
    // The update changes nothing; it makes RETURNING answer for a callback that was there before.
    let statement = format!(
        "INSERT INTO callbacks (id, type, order_no, payment, amount, currency, received_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
         ON CONFLICT (id) DO UPDATE SET outcome = callbacks.outcome RETURNING {CALLBACK}"
    );
    let rows = sql.run(&statement, params).await?;
    rows.into_iter().next().map_or_else(|| Err(StoreError::Unreadable("no callback was written".to_owned())), read)
}

/// Notes what was done about a callback.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn close<S: Sql>(sql: &S, id: &str, outcome: &str) -> Result<(), StoreError> {
    sql.run("UPDATE callbacks SET outcome = ?2 WHERE id = ?1", vec![id.into(), outcome.into()]).await.map(|_| ())
}

/// Callbacks that nothing was done about yet, received before `before`.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn open<S: Sql>(sql: &S, before: Millis, limit: i64) -> Result<Vec<Callback>, StoreError> {
    let statement = format!(
        "SELECT {CALLBACK} FROM callbacks WHERE outcome = '' AND received_at <= ?1 ORDER BY received_at \
         LIMIT CAST(?2 AS BIGINT)"
    );
    sql.run(&statement, vec![before.0.into(), limit.into()]).await?.into_iter().map(read).collect()
}

/// `from → paid`, with the units that it holds. Answers the order if this call moved it.
///
/// # Errors
/// [`StoreError::LedgerRefused`] where a released order finds no room (I2).
pub async fn pay<S: Sql>(sql: &S, callback: &Callback, from: &str, now: Millis) -> Result<Option<Entry>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = 'paid', live = 1, reason = '', payment = ?2, paid_at = ?3, updated_at = ?3, \
         unsettled = 1 WHERE order_no = ?1 AND status = ?4 RETURNING {COLUMNS}"
    );
    let params = vec![callback.order_no.as_str().into(), callback.payment.as_str().into(), now.0.into(), from.into()];
    Ok(read_all(sql.run(&statement, params).await?)?.pop())
}

/// `paid → refunding`, and the refund as work to be done: a trigger writes it in the same statement.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn request_refund<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Option<Entry>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = 'refunding', reason = 'refund_requested', updated_at = ?2, unsettled = 1 \
         WHERE order_no = ?1 AND status = 'paid' RETURNING {COLUMNS}"
    );
    Ok(read_all(sql.run(&statement, vec![order_no.to_string().into(), now.0.into()]).await?)?.pop())
}

/// `cancelled | expired → refunding`, for money that came too late and found no unit.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refund_late<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<Option<Entry>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = 'refunding', reason = 'paid_too_late', payment = ?2, paid_at = ?3, \
         updated_at = ?3, unsettled = 1 \
         WHERE order_no = ?1 AND status IN ('cancelled', 'expired') RETURNING {COLUMNS}"
    );
    let params = vec![callback.order_no.as_str().into(), callback.payment.as_str().into(), now.0.into()];
    Ok(read_all(sql.run(&statement, params).await?)?.pop())
}

/// `refunding → refunded`; the units go back on sale where the activity's policy says so. A trigger closes the work.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refunded<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Option<Entry>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = 'refunded', updated_at = ?2, unsettled = 1, \
         live = CASE WHEN (SELECT a.refund_restocks FROM activities a WHERE a.id = orders.activity) = 1 \
           THEN 0 ELSE live END \
         WHERE order_no = ?1 AND status = 'refunding' RETURNING {COLUMNS}"
    );
    Ok(read_all(sql.run(&statement, vec![order_no.to_string().into(), now.0.into()]).await?)?.pop())
}

/// The provider could not refund: it is asked again later.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn refund_failed<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<(), StoreError> {
    let statement = "UPDATE refunds SET state = 'requested', next_try_at = ?2, last_error = 'the provider said no' \
         WHERE order_no = ?1 AND state <> 'confirmed'";
    sql.run(statement, vec![order_no.to_string().into(), now.plus(60_000).0.into()]).await.map(|_| ())
}

/// A refund to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// Of which order.
    pub order_no: OrderNo,
    /// The provider's id of the payment.
    pub payment: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// Tries so far.
    pub attempts: i64,
}

/// Takes up to `limit` refunds whose time has come, and sets their next try ahead, so that no two sweepers send one at
/// the same time.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn take_refunds<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<Refund>, StoreError> {
    let statement = "UPDATE refunds SET attempts = attempts + 1, \
         next_try_at = ?1 + 5000 * (attempts + 1) * (attempts + 1) \
         WHERE state <> 'confirmed' AND next_try_at <= ?1 AND order_no IN (SELECT r.order_no FROM refunds r \
           WHERE r.state <> 'confirmed' AND r.next_try_at <= ?1 ORDER BY r.next_try_at LIMIT CAST(?2 AS BIGINT)) \
         RETURNING order_no, payment, amount, currency, attempts";
    let rows = sql.run(statement, vec![now.0.into(), limit.into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Row::new(row);
            Ok(Refund {
                order_no: row.parsed(OrderNo::parse)?,
                payment: row.text()?,
                amount: row.int()?,
                currency: row.text()?,
                attempts: row.int()?,
            })
        })
        .collect()
}

/// Notes how a try to send a refund went; the next one comes in any case until the provider confirms.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn note_refund<S: Sql>(sql: &S, order_no: &OrderNo, error: Option<&str>) -> Result<(), StoreError> {
    let statement = "UPDATE refunds SET state = CASE WHEN CAST(?2 AS TEXT) = '' THEN 'sent' ELSE state END, \
         last_error = ?2 WHERE order_no = ?1 AND state <> 'confirmed'";
    sql.run(statement, vec![order_no.to_string().into(), error.unwrap_or_default().into()]).await.map(|_| ())
}
