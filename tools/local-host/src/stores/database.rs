//! SQLite databases. Every `open` of a guest is a separate connection, opened on first use.

mod values;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use self::values::{bind, column_names, convert, row_size};
use super::{MAX_RESULT_BYTES, create_parent, too_large};
use crate::bindings::sqlite::{Error, QueryResult, RowResult, Value};

/// A configured database.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
}

/// A connection with SQLite's defaults, as in Spin: no pragma is set, and the busy timeout is
/// rusqlite's default (5 s).
#[derive(Debug, Clone)]
pub struct Connection(Arc<ConnectionInner>);

#[derive(Debug)]
struct ConnectionInner {
    path: PathBuf,
    connection: OnceLock<Mutex<rusqlite::Connection>>,
}

/// A stream of rows, followed by the outcome of the statement.
pub struct Rows {
    /// The names of the columns. Empty if the statement cannot be prepared.
    pub columns: Vec<String>,
    /// The rows. The connection is locked until all rows are received or the receiver is dropped.
    pub rows: mpsc::Receiver<RowResult>,
    /// Resolves after the last row.
    pub result: oneshot::Receiver<Result<(), Error>>,
}

impl Database {
    /// Creates a database in a file.
    ///
    /// # Errors
    /// If the file's directory cannot be created.
    pub fn new(path: PathBuf) -> anyhow::Result<Self> {
        create_parent(&path)?;
        Ok(Self { path })
    }

    /// Creates a connection. It is opened on first use.
    pub fn connect(&self) -> Connection {
        Connection(Arc::new(ConnectionInner { path: self.path.clone(), connection: OnceLock::new() }))
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.path.display())
    }
}

impl Connection {
    /// Runs a statement and returns all of its rows.
    ///
    /// # Errors
    /// If SQLite returns an error, or the result is larger than [`MAX_RESULT_BYTES`].
    pub async fn query(&self, statement: String, parameters: Vec<Value>) -> Result<QueryResult, Error> {
        let inner = self.0.clone();
        task::spawn_blocking(move || inner.query(&statement, parameters)).await.map_err(io_error)?
    }

    /// Runs a statement and streams its rows.
    ///
    /// # Errors
    /// If the database cannot be opened. Later errors are sent to [`Rows::result`].
    pub async fn stream(&self, statement: String, parameters: Vec<Value>) -> Result<Rows, Error> {
        // Opened but not locked here: the guest may still be receiving the rows of an earlier statement.
        self.0.open()?;
        let inner = self.0.clone();
        let (columns_tx, columns_rx) = oneshot::channel();
        let (rows_tx, rows) = mpsc::channel(4);
        let (result_tx, result) = oneshot::channel();
        task::spawn_blocking(move || {
            let outcome = inner.stream(&statement, parameters, columns_tx, &rows_tx);
            // Sending fails only if the guest has dropped the receiver.
            let _ = result_tx.send(outcome);
        });
        // A statement that cannot be prepared has no columns; its error is in `result`.
        let columns = columns_rx.await.unwrap_or_default();
        Ok(Rows { columns, rows, result })
    }

    /// Returns how many rows the last statement changed.
    ///
    /// # Errors
    /// If the database cannot be opened.
    pub fn changes(&self) -> Result<u64, Error> {
        Ok(self.0.lock()?.changes())
    }

    /// Returns the row id of the last insert.
    ///
    /// # Errors
    /// If the database cannot be opened.
    pub fn last_insert_rowid(&self) -> Result<i64, Error> {
        Ok(self.0.lock()?.last_insert_rowid())
    }
}

impl ConnectionInner {
    fn query(&self, statement: &str, parameters: Vec<Value>) -> Result<QueryResult, Error> {
        let connection = self.lock()?;
        let mut statement = connection.prepare_cached(statement).map_err(io_error)?;
        let columns = column_names(&statement);
        let mut rows = statement.query(bind(parameters)).map_err(io_error)?;
        let mut result = Vec::new();
        let mut size = size_of::<QueryResult>();
        while let Some(row) = rows.next().map_err(io_error)? {
            let row = convert(row)?;
            size += row_size(&row);
            if size > MAX_RESULT_BYTES {
                return Err(Error::Io(too_large()));
            }
            result.push(row);
        }
        Ok(QueryResult { columns, rows: result })
    }

    fn stream(
        &self,
        statement: &str,
        parameters: Vec<Value>,
        columns: oneshot::Sender<Vec<String>>,
        sender: &mpsc::Sender<RowResult>,
    ) -> Result<(), Error> {
        let connection = self.lock()?;
        let mut statement = connection.prepare_cached(statement).map_err(io_error)?;
        columns.send(column_names(&statement)).map_err(|_| Error::Io("column send error".into()))?;
        let mut rows = statement.query(bind(parameters)).map_err(io_error)?;
        while let Some(row) = rows.next().map_err(io_error)? {
            let row = convert(row)?;
            if row_size(&row) > MAX_RESULT_BYTES {
                return Err(Error::Io(too_large()));
            }
            sender.blocking_send(row).map_err(|_| Error::Io("row send error".into()))?;
        }
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, rusqlite::Connection>, Error> {
        Ok(self.open()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self) -> Result<&Mutex<rusqlite::Connection>, Error> {
        if let Some(connection) = self.connection.get() {
            return Ok(connection);
        }
        let connection = self.connect().map_err(io_error)?;
        Ok(self.connection.get_or_init(|| Mutex::new(connection)))
    }

    fn connect(&self) -> rusqlite::Result<rusqlite::Connection> {
        let connection = rusqlite::Connection::open(&self.path)?;
        // Spin's default.
        connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
            AuthAction::Attach { filename } if !matches!(filename, "" | ":memory:") => Authorization::Deny,
            _ => Authorization::Allow,
        }));
        Ok(connection)
    }
}

fn io_error(error: impl fmt::Display) -> Error {
    Error::Io(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect() -> (tempfile::TempDir, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::new(directory.path().join("test.db")).unwrap();
        (directory, database.connect())
    }

    #[tokio::test]
    async fn a_failed_statement_is_reported_at_the_end_of_the_stream() {
        let (_directory, connection) = connect();
        let mut rows = connection.stream("SELEKT 1".into(), vec![]).await.unwrap();
        assert!(rows.columns.is_empty());
        assert!(rows.rows.recv().await.is_none());
        assert!(matches!(rows.result.await.unwrap(), Err(Error::Io(_))));
    }

    #[tokio::test]
    async fn rows_stream_in_order_with_their_types() {
        let (_directory, connection) = connect();
        let select = "SELECT ?1 AS a, 'x' AS b, NULL, 1.5, x'00' UNION ALL SELECT 2, 'y', 1, 2, 3";
        let mut rows = connection.stream(select.into(), vec![Value::Integer(1)]).await.unwrap();
        assert_eq!(rows.columns[..2], ["a", "b"]);
        let first = rows.rows.recv().await.unwrap().values;
        assert!(matches!(&first[..], [Value::Integer(1), Value::Text(_), Value::Null, Value::Real(_), Value::Blob(_)]));
        assert!(rows.rows.recv().await.is_some());
        assert!(rows.rows.recv().await.is_none());
        rows.result.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn files_cannot_be_attached() {
        let (directory, connection) = connect();
        let attach = format!("ATTACH DATABASE '{}' AS other", directory.path().join("other.db").display());
        assert!(connection.query(attach, vec![]).await.is_err());
        connection.query("ATTACH DATABASE ':memory:' AS m".into(), vec![]).await.unwrap();
    }
}
