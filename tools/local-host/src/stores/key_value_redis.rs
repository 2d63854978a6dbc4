//! Key-value store on a Redis server.

use std::fmt;

use anyhow::Context as _;
use redis::{AsyncCommands as _, Client, aio::ConnectionManager};
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::{
    MAX_RESULT_BYTES,
    keys::{Keys, store_error},
    too_large,
};
use crate::bindings::key_value::Error;

/// A server, and the process's single connection to it, which reconnects automatically.
pub struct RedisStore {
    client: Client,
    connection: OnceCell<ConnectionManager>,
}

/// A connection to the server.
#[derive(Clone)]
pub struct OpenRedis(ConnectionManager);

impl RedisStore {
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let client = Client::open(url).context("the `url` is no Redis URL (redis://host:port)")?;
        Ok(Self { client, connection: OnceCell::new() })
    }

    pub async fn open(&self) -> Result<OpenRedis, Error> {
        let connection =
            self.connection.get_or_try_init(|| self.client.get_connection_manager()).await.map_err(store_error)?;
        let mut connection = connection.clone();
        // Makes a broken connection reconnect. If that fails, the next command returns the error.
        let _ = connection.ping::<()>().await;
        Ok(OpenRedis(connection))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client is left out because it contains the password.
        write!(f, "RedisStore({self})")
    }
}

impl fmt::Display for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis at {}", self.client.get_connection_info().addr)
    }
}

impl OpenRedis {
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.clone().get(key).await.map_err(store_error)
    }

    pub async fn set(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.0.clone().set(key, value).await.map_err(store_error)
    }

    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        self.0.clone().del(key).await.map_err(store_error)
    }

    pub async fn exists(&self, key: &str) -> Result<bool, Error> {
        self.0.clone().exists(key).await.map_err(store_error)
    }

    pub fn keys(&self) -> Keys {
        let (keys_tx, keys) = mpsc::channel(4);
        let (result_tx, result) = oneshot::channel();
        let connection = self.0.clone();
        tokio::spawn(async move {
            // Sending fails only if the guest has dropped the receiver.
            let _ = result_tx.send(send_keys(connection, &keys_tx).await);
        });
        Keys { keys, result }
    }
}

async fn send_keys(mut connection: ConnectionManager, keys: &mpsc::Sender<String>) -> Result<(), Error> {
    let mut scan = connection.scan::<String>().await.map_err(store_error)?;
    while let Some(key) = scan.next_item().await {
        if key.len() > MAX_RESULT_BYTES {
            return Err(Error::Other(too_large()));
        }
        keys.send(key).await.map_err(store_error)?;
    }
    Ok(())
}
