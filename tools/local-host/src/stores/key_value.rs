//! Key-value stores in SQLite or Redis.

use std::{fmt, path::PathBuf};

use super::{MAX_RESULT_BYTES, key_value_redis::RedisStore, key_value_sqlite::SqliteStore, keys::Keys, too_large};
use crate::bindings::key_value::Error;

/// A configured store.
#[derive(Debug)]
pub enum KeyValueStore {
    /// In a SQLite file, or in memory.
    Sqlite(SqliteStore),
    /// On a Redis server.
    Redis(Box<RedisStore>),
}

impl KeyValueStore {
    /// Creates a store in a SQLite file, or in memory if there is no path.
    ///
    /// # Errors
    /// If the file's directory cannot be created.
    pub fn sqlite(path: Option<PathBuf>) -> anyhow::Result<Self> {
        SqliteStore::new(path).map(Self::Sqlite)
    }

    /// Creates a store on a Redis server.
    ///
    /// # Errors
    /// If the URL is malformed.
    pub fn redis(url: &str) -> anyhow::Result<Self> {
        RedisStore::new(url).map(|store| Self::Redis(Box::new(store)))
    }

    /// Opens the store. In a SQLite file, the entries of each label are separate.
    ///
    /// # Errors
    /// If the file or the server cannot be reached.
    pub async fn open(&self, label: &str) -> Result<OpenStore, Error> {
        match self {
            Self::Sqlite(store) => store.open(label).map(OpenStore::Sqlite),
            Self::Redis(store) => store.open().await.map(OpenStore::Redis),
        }
    }
}

impl fmt::Display for KeyValueStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(store) => store.fmt(f),
            Self::Redis(store) => store.fmt(f),
        }
    }
}

/// An open store.
#[derive(Clone)]
pub enum OpenStore {
    /// See [`KeyValueStore::Sqlite`].
    Sqlite(super::key_value_sqlite::OpenSqlite),
    /// See [`KeyValueStore::Redis`].
    Redis(super::key_value_redis::OpenRedis),
}

impl OpenStore {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// If the store fails, or the value is larger than [`MAX_RESULT_BYTES`].
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let value = match self {
            Self::Sqlite(store) => store.get(key)?,
            Self::Redis(store) => store.get(key).await?,
        };
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
    pub async fn set(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        match self {
            Self::Sqlite(store) => store.set(key, value),
            Self::Redis(store) => store.set(key, value).await,
        }
    }

    /// Removes a key.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        match self {
            Self::Sqlite(store) => store.delete(key),
            Self::Redis(store) => store.delete(key).await,
        }
    }

    /// Returns whether a key exists.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn exists(&self, key: &str) -> Result<bool, Error> {
        match self {
            Self::Sqlite(store) => Ok(store.get(key)?.is_some()),
            Self::Redis(store) => store.exists(key).await,
        }
    }

    /// Streams the keys.
    pub fn keys(&self) -> Keys {
        match self {
            Self::Sqlite(store) => store.keys(),
            Self::Redis(store) => store.keys(),
        }
    }
}
