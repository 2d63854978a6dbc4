//! The ledger through Spin (G8): SQLite if the variable `ledger` says so, else the PostgreSQL of which it is the URL.
//!
//! Each instance migrates the schema before its first statement, and again if a table is missing.
//!
//! There are fewer connections to PostgreSQL than instances. An instance opens one for the first statement of a request;
//! its concurrent requests share it, and it is closed when the last of them ends, or when one waits for a server of
//! another kind. A request waits for a connection as long as for a statement.
//!
//! A PostgreSQL server may accept a connection and never respond. After a timeout the statement's result is *unknown*
//! (D8), its connection is closed, and the same [`SpinLedger`] fails every further statement at once, so that a request
//! waits for one timeout at most. SQLite is a local file and has no timeout.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    rc::Rc,
    time::{Duration, Instant},
};

use spin_sdk::{pg, sqlite};
use stores::{
    Sql, StoreError,
    ledger::{errors, schema},
    ports::{Dialect, SqlValue},
};

use crate::{counts, settings, shared_connection::Shared, single_flight::Once, timeout::with_timeout};

/// Timeout for a statement, or for opening a connection, while a client waits for the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The same for large statements: batches of the order writer and the sweeper, rebuilds, audits.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of a SQLite statement while another connection writes.
const SQLITE_BUSY: &str = "database is locked";

/// How long a SQLite statement waits for other writers, and for its turn among those of its instance.
const MAX_SQLITE_WAIT: Duration = Duration::from_secs(5);

/// How long, in ms, SQLite itself waits for other writers before it fails. It sleeps ever longer between its attempts, up
/// to 25 ms, and the instance's other statements wait meanwhile. An attempt of ours, through the engine, costs more; one
/// after SQLite's longer sleeps would come too late.
const SQLITE_BUSY_TIMEOUT_MS: u32 = 100;

/// Then how long to wait before the next attempt.
const SQLITE_RETRY_DELAY: Duration = Duration::from_millis(1);

/// How long to wait before connecting again to a server that has too many clients.
const TOO_MANY_CLIENTS_DELAY: Duration = Duration::from_millis(50);

/// So long before the timeout the server's refusal becomes the error, which otherwise would only say that there was no
/// answer.
const REFUSAL_MARGIN: Duration = Duration::from_millis(300);

enum Connection {
    Sqlite(sqlite::Connection),
    Postgres(pg::Connection),
}

thread_local! {
    static CONNECTION: Rc<Once<Connection>> = Rc::default();
    static HELD: RefCell<Held> = const { RefCell::new(Held { ledgers: 0, connection: None }) };
    static MIGRATED: Rc<Once<()>> = Rc::default();
}

/// The connection between two statements.
struct Held {
    /// The number of [`SpinLedger`]s that exist: requests that may run another statement.
    ledgers: usize,
    connection: Option<Shared<Connection>>,
}

/// Counts a [`SpinLedger`] while it exists.
struct Hold;

impl Hold {
    fn new() -> Self {
        HELD.with_borrow_mut(|held| held.ledgers += 1);
        Self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let ledgers = HELD.with_borrow_mut(|held| {
            held.ledgers -= 1;
            held.ledgers
        });
        if ledgers == 0 {
            close_idle_connection();
        }
    }
}

/// Closes the instance's connection, unless a statement is running on it; the next statement opens another one. Call
/// this before waiting for something slow, so that other instances can have the connection.
pub fn close_idle_connection() {
    hold(None);
}

/// Holds `connection` until the next call.
fn hold(connection: Option<Shared<Connection>>) {
    let previous = HELD.with_borrow_mut(|held| std::mem::replace(&mut held.connection, connection));
    drop(previous);
}

/// The ledger that the variable `ledger` names. Open one per request: it remembers a timeout, and the instance holds its
/// connection while one exists.
pub struct SpinLedger {
    dialect: Dialect,
    timeout: Duration,
    /// A statement timed out; further ones fail at once.
    timed_out: Cell<bool>,
    _hold: Hold,
}

impl SpinLedger {
    /// Prepares the ledger with a timeout of 3 s per statement. The connection is opened by the first statement.
    pub async fn open() -> Self {
        // A URL that cannot be read must not become a file of this machine, which no backup has.
        let is_sqlite = settings::find(settings::LEDGER).await.is_ok_and(|ledger| &**ledger == "sqlite");
        let dialect = if is_sqlite { Dialect::Sqlite } else { Dialect::Postgres };
        Self { dialect, timeout: REQUEST_TIMEOUT, timed_out: Cell::new(false), _hold: Hold::new() }
    }

    /// The same with a timeout of 10 s, for statements that process many rows.
    pub async fn open_for_batch() -> Self {
        Self { timeout: BATCH_TIMEOUT, ..Self::open().await }
    }
}

impl Sql for SpinLedger {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn forget_timeouts(&self) {
        self.timed_out.set(false);
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let result = self.run_migrated(statement, params).await;
        counts::add_call("ledger", if statement.starts_with("SELECT") { "read" } else { "write" }, &result);
        result
    }
}

impl SpinLedger {
    /// Migrates the instance's ledger and runs a statement, once more after migrations that were missing.
    async fn run_migrated(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        if !statement.contains("schema_versions") {
            self.within_timeout(self.migrate_once()).await?;
        }
        match self.execute(statement, params.clone()).await {
            Err(StoreError::LedgerNotMigrated(_)) if !statement.contains("schema_versions") => {
                Box::pin(schema::migrate(&WithoutMigration(self))).await?;
                self.execute(statement, params).await
            }
            result => result,
        }
    }

    /// Runs the migrations once per instance. A ledger of an older release lacks newer triggers, and no statement would
    /// fail because of that.
    async fn migrate_once(&self) -> Result<(), StoreError> {
        let migrate = async || Box::pin(schema::migrate(&WithoutMigration(self))).await;
        MIGRATED.with(Rc::clone).get_or_init(migrate).await.map(|_| ())
    }

    async fn execute(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let keep_unused = |connection: &Connection| matches!(connection, Connection::Sqlite(_));
        let connection = Shared::open(CONNECTION.with(Rc::clone), keep_unused, async || {
            connect(self.dialect, self.timeout.saturating_sub(REFUSAL_MARGIN)).await
        });
        let connection = self.within_timeout(connection).await.inspect_err(|error| {
            // Further statements of the request wait no longer.
            let is_refused = matches!(error, StoreError::LedgerUnavailable(text) if errors::has_too_many_clients(text));
            self.timed_out.set(self.timed_out.get() || is_refused);
        })?;
        let result = self.within_timeout(async {
            match &*connection {
                Connection::Sqlite(connection) => run_sqlite(connection, statement, params).await,
                Connection::Postgres(connection) => run_postgres(connection, statement, params).await,
            }
        });
        let result = result.await;
        if matches!(result, Err(StoreError::LedgerUnavailable(_))) {
            connection.discard();
            close_idle_connection();
        } else {
            hold(Some(connection));
        }
        result
    }

    /// Runs `work` with the timeout; fails at once if an earlier statement timed out.
    async fn within_timeout<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let timeout_error =
            || StoreError::LedgerUnavailable(format!("no answer within {} ms", self.timeout.as_millis()));
        if self.timed_out.get() {
            return Err(timeout_error());
        }
        match self.dialect {
            Dialect::Sqlite => work.await,
            Dialect::Postgres => with_timeout(self.timeout, work).await.unwrap_or_else(|| {
                self.timed_out.set(true);
                Err(timeout_error())
            }),
        }
    }
}

/// The ledger for the migrations themselves: its statements run without migrating first.
struct WithoutMigration<'a>(&'a SpinLedger);

impl Sql for WithoutMigration<'_> {
    fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        self.0.execute(statement, params).await
    }
}

/// Opens a connection. While a server has too many clients, tries again for `max_wait`.
async fn connect(dialect: Dialect, max_wait: Duration) -> Result<Connection, StoreError> {
    let unavailable = |text: String| StoreError::LedgerUnavailable(text);
    let since = Instant::now();
    match dialect {
        Dialect::Sqlite => {
            let connection = sqlite::Connection::open_default().await.map_err(|e| unavailable(e.to_string()))?;
            // An engine that does not know the setting waits as long as it likes.
            let _ = connection.execute(format!("PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}"), Vec::new()).await;
            Ok(Connection::Sqlite(connection))
        }
        Dialect::Postgres => loop {
            let url = settings::find(settings::LEDGER).await.map_err(|fault| unavailable(fault.to_string()))?;
            match pg::Connection::open(with_idle_timeout(&url)).await {
                Ok(connection) => return Ok(Connection::Postgres(connection)),
                Err(error) if since.elapsed() < max_wait && errors::has_too_many_clients(&error.to_string()) => {
                    spin_sdk::time::sleep(TOO_MANY_CLIENTS_DELAY).await;
                }
                Err(error) => return Err(unavailable(errors::without_urls(&error.to_string()))),
            }
        },
    }
}

/// Asks the server to close the connection when it has been idle for 10 s: longer than a request holds it while it waits
/// for Redis. Each component has a pool that closes none, and together they may be more than the server admits. Options of
/// the operator's URL stay as they are.
fn with_idle_timeout(url: &str) -> String {
    if url.contains("options=") {
        return url.to_owned();
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options=-c%20idle_session_timeout%3D10s")
}

async fn run_sqlite(
    connection: &sqlite::Connection,
    statement: &str,
    params: Vec<SqlValue>,
) -> Result<Vec<Vec<SqlValue>>, StoreError> {
    let params = params.into_iter().map(|param| match param {
        SqlValue::Null => sqlite::Value::Null,
        SqlValue::Int(number) => sqlite::Value::Integer(number),
        SqlValue::Text(text) => sqlite::Value::Text(text),
    });
    let since = Instant::now();
    let rows = loop {
        let rows = async { connection.execute(statement, params.clone()).await?.collect().await };
        match rows.await {
            // Another connection writes: nothing was changed.
            Err(sqlite::Error::Io(text)) if text == SQLITE_BUSY && since.elapsed() < MAX_SQLITE_WAIT => {
                spin_sdk::time::sleep(SQLITE_RETRY_DELAY).await;
            }
            rows => break rows.map_err(sqlite_error)?,
        }
    };
    let value = |value| match value {
        sqlite::Value::Integer(number) => SqlValue::Int(number),
        sqlite::Value::Text(text) => SqlValue::Text(text),
        sqlite::Value::Real(number) => SqlValue::Text(number.to_string()),
        sqlite::Value::Blob(bytes) => SqlValue::Text(String::from_utf8_lossy(&bytes).into_owned()),
        sqlite::Value::Null => SqlValue::Null,
    };
    Ok(rows.into_iter().map(|row| row.values.into_iter().map(value).collect()).collect())
}

async fn run_postgres(
    connection: &pg::Connection,
    statement: &str,
    params: Vec<SqlValue>,
) -> Result<Vec<Vec<SqlValue>>, StoreError> {
    let params = params.into_iter().map(|param| match param {
        SqlValue::Null => pg::ParameterValue::DbNull,
        SqlValue::Int(number) => pg::ParameterValue::Int64(number),
        SqlValue::Text(text) => pg::ParameterValue::Str(text),
    });
    // PostgreSQL's parameters are `$1`, SQLite's `?1`; no statement has a question mark anywhere else.
    let statement = statement.replace('?', "$");
    let rows = async {
        let mut result = connection.query(statement, params.collect::<Vec<_>>()).await?;
        let mut rows = Vec::new();
        while let Some(row) = result.rows().next().await {
            rows.push(row);
        }
        result.result().await.map(|()| rows)
    };
    let rows = rows.await.map_err(|error| postgres_error(&error))?;
    let value = |value| match value {
        pg::DbValue::Int64(number) => SqlValue::Int(number),
        pg::DbValue::Int32(number) => SqlValue::Int(i64::from(number)),
        pg::DbValue::Str(text) => SqlValue::Text(text),
        _ => SqlValue::Null,
    };
    Ok(rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect())
}

fn sqlite_error(error: sqlite::Error) -> StoreError {
    match error {
        sqlite::Error::Io(text) => StoreError::from_sqlite_error(text),
        other => StoreError::LedgerUnavailable(other.to_string()),
    }
}

fn postgres_error(error: &pg::Error) -> StoreError {
    match error {
        pg::Error::PgError(pg::PgError::QueryFailed(pg::QueryError::DbError(error))) => {
            let constraint =
                error.extras.iter().find(|(name, _)| name == "constraint").map(|(_, value)| value.as_str());
            let text = errors::describe_postgres_error(&error.severity, &error.code, &error.message, constraint);
            StoreError::from_postgres_error(Some(&error.code), text)
        }
        _ => StoreError::from_postgres_error(None, errors::without_urls(&format!("{error:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_options_keeps_them() {
        for (url, expected) in [
            ("postgres://a:b@h/db", "postgres://a:b@h/db?options=-c%20idle_session_timeout%3D10s"),
            ("postgres://h?sslmode=disable", "postgres://h?sslmode=disable&options=-c%20idle_session_timeout%3D10s"),
            ("postgres://h/db?options=-c%20x%3D1", "postgres://h/db?options=-c%20x%3D1"),
        ] {
            assert_eq!(with_idle_timeout(url), expected);
        }
    }

    #[test]
    fn the_sqlstate_of_a_failed_query_decides_what_its_error_means() {
        let error = |code: &str| {
            let text = "canceling statement due to lock timeout".to_owned();
            let db_error = pg::DbError {
                as_text: text.clone(),
                severity: "ERROR".to_owned(),
                code: code.to_owned(),
                message: text,
                detail: None,
                extras: Vec::new(),
            };
            postgres_error(&pg::Error::PgError(pg::PgError::QueryFailed(pg::QueryError::DbError(db_error))))
        };
        assert!(matches!(error("55P03"), StoreError::LedgerUnavailable(_)), "a lock timeout is no answer");
        assert!(matches!(error("23505"), StoreError::LedgerRefused(_)));
        let text = "connection closed".to_owned();
        let closed = pg::Error::PgError(pg::PgError::QueryFailed(pg::QueryError::Text(text)));
        assert!(matches!(postgres_error(&closed), StoreError::LedgerUnavailable(_)));
    }
}
