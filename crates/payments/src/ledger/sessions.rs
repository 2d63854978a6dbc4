//! Payment sessions in the ledger.
//!
//! The provider is asked about an open session before its order is released. An order has one session at a time: the
//! next one is opened after the last one has ended.

use domain::{ids::OrderNo, time::Millis};
use stores::{
    ledger::{clock::Clock, row_reader::RowReader},
    ports::{Dialect, Sql, StoreError},
};

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

/// A session that a provider has opened.
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
}

/// The latest session of an order; earlier ones have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatestSession {
    /// Its number among the order's sessions, from 1.
    pub session_number: i64,
    /// Whether it can still be paid, as far as the ledger knows.
    pub open: bool,
}

impl LatestSession {
    /// Reads the next two columns: the session's number, which is NULL if there is none, and whether it is open.
    pub(super) fn read(row: &mut RowReader) -> Result<Option<Self>, StoreError> {
        let (session_number, open) = (row.int()?, row.int()? == 1);
        Ok((session_number > 0).then_some(Self { session_number, open }))
    }
}

/// Loads the latest session of an order.
pub async fn load_latest<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<LatestSession>, StoreError> {
    let statement = "SELECT attempt, CASE WHEN state = 'open' THEN 1 ELSE 0 END FROM sessions WHERE order_no = ?1";
    let rows = sql.run(statement, vec![order_no.to_string().into()]).await?;
    rows.into_iter().next().map_or(Ok(None), |row| LatestSession::read(&mut RowReader::new(row)))
}

/// A payment that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedPayment {
    /// Where the buyer pays.
    pub url: String,
    /// The order's deadline, extended.
    pub pay_by: Millis,
}

/// Saves the first session of an order, or the next one after a closed one; in any other case nothing changes. A trigger
/// starts the payment of the order in the same statement, if it is `pending_payment` and its time to pay is not over. A
/// session whose end the provider has already reported is saved as closed, and starts nothing. Returns the payment if
/// this call started it.
pub async fn save<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    opened: &Session,
    now: impl Into<Clock>,
) -> Result<Option<StartedPayment>, StoreError> {
    // Locks the order's row before the session's, like a statement that changes the order's status. The activity's row is
    // not locked: all checkouts of the activity would wait for each other.
    let lock = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE OF o",
    };
    let statement =
        format!(include_str!("../../sql/sessions/save.sql"), now = now.into().sql(sql.dialect()), lock = lock);
    let params = vec![
        order_no.to_string().into(),
        opened.provider.as_str().into(),
        opened.id.as_str().into(),
        opened.url.as_str().into(),
        opened.session_number.into(),
    ];
    let Some(row) = sql.run(&statement, params).await?.into_iter().next() else { return Ok(None) };
    let mut row = RowReader::new(row);
    let payment = StartedPayment { url: row.text()?, pay_by: Millis(row.int()?) };
    Ok((row.int()? == 1).then_some(payment))
}

/// Records that no session could be opened: while none is, the end of the order is no strike (B8).
pub async fn record_failed_checkout<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<(), StoreError> {
    let statement = "UPDATE orders SET checkout_failed = 1 \
         WHERE order_no = ?1 AND status = 'pending_payment' AND checkout_failed = 0 \
         AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.order_no = ?1 AND s.state = 'open')";
    sql.run(statement, vec![order_no.to_string().into()]).await.map(|_| ())
}

/// Claims up to `limit` open sessions of orders that were released or whose time to pay is over. Their next attempt is
/// moved ahead, so that no two sweepers ask about the same session at the same time.
pub async fn claim_due<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<DueSession>, StoreError> {
    let statement = include_str!("../../sql/sessions/claim_due.sql");
    let rows = sql.run(statement, vec![now.0.into(), limit.into()]).await?.into_iter().map(RowReader::new);
    let read = |mut row: RowReader| {
        Ok(DueSession { order_no: row.parse(OrderNo::parse)?, provider: row.text()?, id: row.text()? })
    };
    rows.map(read).collect()
}

/// Closes a session that has ended: its order can be released, or get another session.
pub async fn close<S: Sql>(sql: &S, order_no: &OrderNo, session: &str) -> Result<(), StoreError> {
    let statement = "UPDATE sessions SET state = 'closed' WHERE order_no = ?1 AND session = ?2 AND state = 'open'";
    sql.run(statement, vec![order_no.to_string().into(), session.into()]).await.map(|_| ())
}

/// Records that the provider gave no final answer: none at all, or still processing. It is asked again; after the last
/// time the session is closed.
pub async fn record_unresolved<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    session: &str,
    error: &str,
) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/sessions/record_unresolved.sql");
    sql.run(statement, vec![order_no.to_string().into(), error.into(), MAX_ATTEMPTS.into(), session.into()])
        .await
        .map(|_| ())
}
