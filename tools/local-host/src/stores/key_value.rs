//! Key-value store in a SQLite file, in the same table as Spin's.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use rusqlite::{Connection, OptionalExtension as _};
use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use super::{
    MAX_RESULT_BYTES, create_parent,
    keys::{Keys, store_error},
    too_large,
};
use crate::bindings::key_value::Error;

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS spin_key_value (
    store TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (store, key)
)";

/// A file, or memory, and the process's single connection to it.
#[derive(Debug)]
pub struct SqliteStore {
    path: Option<PathBuf>,
    connection: OnceLock<Arc<Mutex<Connection>>>,
}

/// The entries of one label.
#[derive(Clone)]
pub struct OpenSqlite {
    label: Arc<str>,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    pub fn new(path: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = &path {
            create_parent(path)?;
        }
        Ok(Self { path, connection: OnceLock::new() })
    }

    pub fn open(&self, label: &str) -> Result<OpenSqlite, Error> {
        let connection = task::block_in_place(|| match self.connection.get() {
            Some(connection) => Ok(connection.clone()),
            None => {
                let connection = self.connect().map_err(store_error)?;
                Ok(self.connection.get_or_init(|| Arc::new(Mutex::new(connection))).clone())
            }
        })?;
        Ok(OpenSqlite { label: label.into(), connection })
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = match &self.path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        connection.execute(SCHEMA, [])?;
        Ok(connection)
    }
}

impl fmt::Display for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "\"{}\"", path.display()),
            None => f.write_str("a temporary in-memory store"),
        }
    }
}

impl OpenSqlite {
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT value FROM spin_key_value WHERE store = ?1 AND key = ?2")?
                .query_row([&*self.label, key], |row| row.get(0))
                .optional()
        })
    }

    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "INSERT INTO spin_key_value (store, key, value) VALUES (?1, ?2, ?3)
                     ON CONFLICT (store, key) DO UPDATE SET value = ?3",
                )?
                .execute(rusqlite::params![&*self.label, key, value])
                .map(drop)
        })
    }

    pub fn delete(&self, key: &str) -> Result<(), Error> {
        self.run(|connection| {
            connection
                .prepare_cached("DELETE FROM spin_key_value WHERE store = ?1 AND key = ?2")?
                .execute([&*self.label, key])
                .map(drop)
        })
    }

    pub fn keys(&self) -> Keys {
        let (keys_tx, keys) = mpsc::channel(4);
        let (result_tx, result) = oneshot::channel();
        let store = self.clone();
        task::spawn_blocking(move || {
            // Sending fails only if the guest has dropped the receiver.
            let _ = result_tx.send(store.send_keys(&keys_tx));
        });
        Keys { keys, result }
    }

    fn send_keys(&self, keys: &mpsc::Sender<String>) -> Result<(), Error> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT key FROM spin_key_value WHERE store = ?1").map_err(store_error)?;
        let mut rows = statement.query([&*self.label]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let key: String = row.get(0).map_err(store_error)?;
            if key.len() > MAX_RESULT_BYTES {
                return Err(Error::Other(too_large()));
            }
            keys.blocking_send(key).map_err(store_error)?;
        }
        Ok(())
    }

    fn run<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        task::block_in_place(|| work(&self.lock())).map_err(store_error)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn labels_in_one_file_are_isolated() {
        let store = SqliteStore::new(None).unwrap();
        let (a, b) = (store.open("a").unwrap(), store.open("b").unwrap());
        a.set("k", b"1").unwrap();
        a.set("k", b"2").unwrap();
        assert_eq!(a.get("k").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(b.get("k").unwrap(), None);

        let mut keys = a.keys();
        assert_eq!(keys.keys.recv().await.as_deref(), Some("k"));
        assert_eq!(keys.keys.recv().await, None);
        keys.result.await.unwrap().unwrap();

        a.delete("k").unwrap();
        assert_eq!(a.get("k").unwrap(), None);
    }
}
