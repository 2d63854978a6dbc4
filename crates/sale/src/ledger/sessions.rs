//! Payment sessions in the ledger: those that the provider must be asked about before their order is released.

use stampede_domain::{ids::OrderNo, time::Millis};

use super::rows::Row;
use crate::ports::{Sql, StoreError};

/// How long an order that is due waits for the provider's word on its open session, in milliseconds. Money that comes
/// after that is late money.
pub const GRACE_MS: i64 = 60_000;

/// How often a provider is asked about a session; after that it has ended by itself.
const TRIES: i64 = 24;

/// A session that is to be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Of which order.
    pub order_no: OrderNo,
    /// The provider's id.
    pub session: String,
}

/// Where an order with a session is paid.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn url<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<String>, StoreError> {
    let rows = sql.run("SELECT url FROM sessions WHERE order_no = ?1", vec![order_no.to_string().into()]).await?;
    rows.into_iter().next().map(|row| Row::new(row).text()).transpose()
}

/// Keeps an order's session; repeating it changes nothing.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn keep<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    session: &str,
    url: &str,
    ask_at: Millis,
) -> Result<(), StoreError> {
    let statement =
        "INSERT INTO sessions (order_no, session, url, next_ask_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    sql.run(statement, vec![order_no.to_string().into(), session.into(), url.into(), ask_at.0.into()]).await.map(|_| ())
}

/// Takes up to `limit` open sessions of orders whose time is up or that were released, and sets their next turn ahead,
/// so that no two sweepers ask about one at the same time.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn take<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<Due>, StoreError> {
    let statement = "UPDATE sessions SET attempts = attempts + 1, \
         next_ask_at = CAST(?1 AS BIGINT) + 5000 * (attempts + 1) * (attempts + 1) \
         WHERE state = 'open' AND next_ask_at <= CAST(?1 AS BIGINT) AND order_no IN (SELECT s.order_no FROM sessions s \
           JOIN orders o ON o.order_no = s.order_no \
           WHERE s.state = 'open' AND s.next_ask_at <= CAST(?1 AS BIGINT) AND (o.status IN ('cancelled', 'expired') \
             OR (o.status = 'pending_payment' AND o.pay_by <= CAST(?1 AS BIGINT))) \
           ORDER BY s.next_ask_at LIMIT CAST(?2 AS BIGINT)) RETURNING order_no, session";
    let rows = sql.run(statement, vec![now.0.into(), limit.into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Row::new(row);
            Ok(Due { order_no: row.parsed(OrderNo::parse)?, session: row.text()? })
        })
        .collect()
}

/// The session has ended: its order can be released.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn close<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<(), StoreError> {
    let statement = "UPDATE sessions SET state = 'closed' WHERE order_no = ?1 AND state = 'open'";
    sql.run(statement, vec![order_no.to_string().into()]).await.map(|_| ())
}

/// The provider did not say: it is asked again, some day for the last time.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn note<S: Sql>(sql: &S, order_no: &OrderNo, error: &str) -> Result<(), StoreError> {
    let statement = "UPDATE sessions SET last_error = ?2, \
         state = CASE WHEN attempts >= CAST(?3 AS BIGINT) THEN 'closed' ELSE state END \
         WHERE order_no = ?1 AND state = 'open'";
    sql.run(statement, vec![order_no.to_string().into(), error.into(), TRIES.into()]).await.map(|_| ())
}
