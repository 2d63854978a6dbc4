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

use super::{DEFAULT, MAX_RESULT_BYTES, create_parent, too_large};
use crate::bindings::key_value::Error;

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS spin_key_value (
    store TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (store, key)
)";

/// A file, and the process's single connection to it, which is opened on first use.
#[derive(Debug)]
pub struct KeyValueStore {
    path: PathBuf,
    connection: OnceLock<Mutex<Connection>>,
}

/// A stream of keys, followed by the outcome of the listing.
pub struct Keys {
    /// The keys.
    pub keys: mpsc::Receiver<String>,
    /// Resolves after the last key.
    pub result: oneshot::Receiver<Result<(), Error>>,
}

impl KeyValueStore {
    /// Creates a store.
    ///
    /// # Errors
    /// If the file's directory cannot be created.
    pub fn new(path: PathBuf) -> anyhow::Result<Self> {
        create_parent(&path)?;
        Ok(Self { path, connection: OnceLock::new() })
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// If the store fails, or the value is larger than [`MAX_RESULT_BYTES`].
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let value: Option<Vec<u8>> = self.run(|connection| {
            connection
                .prepare_cached("SELECT value FROM spin_key_value WHERE store = ?1 AND key = ?2")?
                .query_row([DEFAULT, key], |row| row.get(0))
                .optional()
        })?;
        let size = size_of::<Option<Vec<u8>>>() + value.as_ref().map_or(0, Vec::len);
        if size > MAX_RESULT_BYTES {
            return Err(Error::Other(too_large()));
        }
        Ok(value)
    }

    /// Sets a key.
    ///
    /// # Errors
    /// If the store fails.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "INSERT INTO spin_key_value (store, key, value) VALUES (?1, ?2, ?3)
                     ON CONFLICT (store, key) DO UPDATE SET value = ?3",
                )?
                .execute(rusqlite::params![DEFAULT, key, value])
                .map(drop)
        })
    }

    /// Removes a key.
    ///
    /// # Errors
    /// If the store fails.
    pub fn delete(&self, key: &str) -> Result<(), Error> {
        self.run(|connection| {
            connection
                .prepare_cached("DELETE FROM spin_key_value WHERE store = ?1 AND key = ?2")?
                .execute([DEFAULT, key])
                .map(drop)
        })
    }

    /// Streams the keys.
    pub fn keys(self: Arc<Self>) -> Keys {
        let (keys_tx, keys) = mpsc::channel(4);
        let (result_tx, result) = oneshot::channel();
        task::spawn_blocking(move || {
            // Sending fails only if the guest has dropped the receiver.
            let _ = result_tx.send(self.send_keys(&keys_tx));
        });
        Keys { keys, result }
    }

    fn send_keys(&self, keys: &mpsc::Sender<String>) -> Result<(), Error> {
        let connection = self.lock().map_err(store_error)?;
        let mut statement =
            connection.prepare_cached("SELECT key FROM spin_key_value WHERE store = ?1").map_err(store_error)?;
        let mut rows = statement.query([DEFAULT]).map_err(store_error)?;
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
        task::block_in_place(|| work(&*self.lock()?)).map_err(store_error)
    }

    fn lock(&self) -> rusqlite::Result<MutexGuard<'_, Connection>> {
        let connection = match self.connection.get() {
            Some(connection) => connection,
            None => {
                let connection = Connection::open(&self.path)?;
                connection.execute(SCHEMA, [])?;
                self.connection.get_or_init(|| Mutex::new(connection))
            }
        };
        Ok(connection.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for KeyValueStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.path.display())
    }
}

/// Logs a store's error and converts it to the guest's error.
fn store_error(error: impl fmt::Debug + fmt::Display) -> Error {
    tracing::warn!("key-value error: {error:?}");
    Error::Other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn entries_are_set_listed_and_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(KeyValueStore::new(directory.path().join("sub/store.db")).unwrap());
        store.set("k", b"1").unwrap();
        store.set("k", b"2").unwrap();
        assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"2"[..]));

        let mut keys = store.clone().keys();
        assert_eq!(keys.keys.recv().await.as_deref(), Some("k"));
        assert_eq!(keys.keys.recv().await, None);
        keys.result.await.unwrap().unwrap();

        store.delete("k").unwrap();
        assert_eq!(store.get("k").unwrap(), None);
    }
}
