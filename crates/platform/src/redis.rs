//! Redis through Spin: one connection, kept for the life of the instance and shared by its requests.
//!
//! Spin's connection does not reconnect by itself: on a connection error it is dropped, a new one is opened, and the
//! call is repeated once. Every script of this app may be repeated; that is what makes this safe.

use std::{cell::RefCell, rc::Rc};

use spin_sdk::redis::{Connection, Error, RedisParameter, RedisResult};
use stampede_domain::time::Millis;
use stampede_sale::{
    Redis, StoreError,
    ports::{Arg, Item},
};

use crate::{
    config,
    once::{self, Slot},
};

thread_local! {
    static CONNECTION: RefCell<Slot<Connection>> = const { RefCell::new(Slot::Empty) };
}

/// The Redis of the variable `redis_url`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpinRedis;

impl SpinRedis {
    /// Redis's clock.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn now(self) -> Result<Millis, StoreError> {
        let mut reply = stampede_sale::reply::Reply::new(self.command("TIME", Vec::new()).await?);
        Ok(Millis(reply.int()? * 1000 + reply.int()? / 1000))
    }
}

impl Redis for SpinRedis {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        let connection = connection().await?;
        let again = args.clone();
        match call(&connection, name, args).await {
            Err(StoreError::RedisUnavailable(_)) => {
                once::forget(&CONNECTION, &connection);
                let connection = self::connection().await?;
                let answer = call(&connection, name, again).await;
                if matches!(answer, Err(StoreError::RedisUnavailable(_))) {
                    once::forget(&CONNECTION, &connection);
                }
                answer
            }
            answer => answer,
        }
    }
}

async fn connection() -> Result<Rc<Connection>, StoreError> {
    once::get_or_make(&CONNECTION, async || {
        let url = config::get("redis_url").await;
        Connection::open(&*url).await.map_err(|error| StoreError::RedisUnavailable(error.to_string()))
    })
    .await
}

async fn call(connection: &Connection, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
    let args = args.into_iter().map(RedisParameter::Binary);
    match connection.execute(name, args).await {
        Ok(items) => Ok(items.into_iter().map(item).collect()),
        Err(error) => Err(classify(error)),
    }
}

fn item(item: RedisResult) -> Item {
    match item {
        RedisResult::Nil => Item::Nil,
        RedisResult::Int64(number) => Item::Int(number),
        RedisResult::Status(text) => Item::Bytes(text.into_bytes()),
        RedisResult::Binary(bytes) => Item::Bytes(bytes),
    }
}

/// Tells a server that said no from one that could not be asked. What is not known to be an answer counts as the
/// latter: unknown is not failed.
fn classify(error: Error) -> StoreError {
    let Error::Other(text) = error else { return StoreError::RedisRefused(error.to_string()) };
    let lower = text.to_ascii_lowercase();
    if lower.contains("noscript") {
        return StoreError::RedisRefused("NOSCRIPT".to_owned());
    }
    let answered = ["nogroup", "wrongtype", "responseerror", "err:", "error was signalled", "user_script", "crossslot"];
    let cannot = ["loading", "readonly", "masterdown", "clusterdown", "oom", "misconf", "busy"];
    if answered.iter().any(|word| lower.contains(word)) && !cannot.iter().any(|word| lower.contains(word)) {
        StoreError::RedisRefused(text)
    } else {
        StoreError::RedisUnavailable(text)
    }
}
