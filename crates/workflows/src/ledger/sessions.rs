//! Payment sessions in the ledger.
//!
//! The provider is asked about an open session before its order is released. An order has one session at a time: the
//! next one is opened after the last one has ended.

use domain::{ids::OrderNo, time::Millis};

use super::row_reader::RowReader;
use crate::ports::{Dialect, Sql, StoreError};

/// How long an order whose time to pay is over waits for the provider's answer about its open session, in milliseconds.
/// A payment that is reported later counts as late.
pub const GRACE_MS: i64 = 60_000;

/// Maximum number of times that the provider is asked about a session, which takes about 7 hours. After that the
/// session counts as closed.
const MAX_ATTEMPTS: i64 = 24;

/// A session that the provider is to be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSession {
    /// Its order.
    pub order_no: OrderNo,
    /// The provider that opened it.
    pub provider: String,
    /// The provider's id.
    pub id: String,
}

/// The latest session of an order; earlier ones have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The provider that opened it.
    pub provider: String,
    /// The provider's id.
    pub id: String,
    /// Where the buyer pays.
    pub url: String,
    /// Its number among the order's sessions, from 1.
    pub session_number: i64,
    /// Whether it can still be paid, as far as the ledger knows.
    pub open: bool,
}

/// Loads the latest session of an order.
///
/// # Errors
/// See [`ledger`](super).
pub async fn load_latest<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<Session>, StoreError> {
    let statement = "SELECT provider, session, url, attempt, CASE WHEN state = 'open' THEN 1 ELSE 0 END FROM sessions \
         WHERE order_no = ?1";
    let rows = sql.run(statement, vec![order_no.to_string().into()]).await?;
    let parse_row = |row| {
        let mut row = RowReader::new(row);
        Ok(Session {
            provider: row.text()?,
            id: row.text()?,
            url: row.text()?,
            session_number: row.int()?,
            open: row.int()? == 1,
        })
    };
    rows.into_iter().next().map(parse_row).transpose()
}

/// Saves the first session of an order, or the next one after a closed one; in any other case nothing changes. A trigger
/// starts the payment of the order in the same statement, if it is `pending_payment` and its time to pay is not over. A
/// session whose end the provider has already reported is saved as closed, and starts nothing.
///
/// # Errors
/// See [`ledger`](super).
pub async fn save<S: Sql>(sql: &S, order_no: &OrderNo, opened: &Session, now: Millis) -> Result<(), StoreError> {
    // Locks the order's row before the session's, like a statement that changes the order's status.
    let lock = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE",
    };
    let statement = format!(include_str!("../../sql/queries/sessions/save.sql"), lock = lock);
    let params = vec![
        order_no.to_string().into(),
        opened.provider.as_str().into(),
        opened.id.as_str().into(),
        opened.url.as_str().into(),
        opened.session_number.into(),
        now.0.into(),
    ];
    sql.run(&statement, params).await.map(|_| ())
}

/// Claims up to `limit` open sessions of orders that were released or whose time to pay is over. Their next attempt is
/// moved ahead, so that no two sweepers ask about the same session at the same time.
///
/// # Errors
/// See [`ledger`](super).
pub async fn claim_due<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<DueSession>, StoreError> {
    let statement = include_str!("../../sql/queries/sessions/claim_due.sql");
    let rows = sql.run(statement, vec![now.0.into(), limit.into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = RowReader::new(row);
            Ok(DueSession { order_no: row.parse(OrderNo::parse)?, provider: row.text()?, id: row.text()? })
        })
        .collect()
}

/// Closes a session that has ended: its order can be released, or get another session.
///
/// # Errors
/// See [`ledger`](super).
pub async fn close<S: Sql>(sql: &S, order_no: &OrderNo, session: &str) -> Result<(), StoreError> {
    let statement = "UPDATE sessions SET state = 'closed' WHERE order_no = ?1 AND session = ?2 AND state = 'open'";
    sql.run(statement, vec![order_no.to_string().into(), session.into()]).await.map(|_| ())
}

/// Records that the provider gave no final answer: none at all, or still processing. It is asked again; after the last
/// time the session is closed.
///
/// # Errors
/// See [`ledger`](super).
pub async fn record_unresolved<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    session: &str,
    error: &str,
) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/queries/sessions/record_unresolved.sql");
    sql.run(statement, vec![order_no.to_string().into(), error.into(), MAX_ATTEMPTS.into(), session.into()])
        .await
        .map(|_| ())
}
