//! Redis through Spin: one connection per instance, shared by its concurrent requests.
//!
//! A connection is closed when no command has used it for 25 to 50 ms: an engine that limits connections can then hand it
//! to another instance. A busy instance keeps it, and so pays no round trip for this.
//!
//! Spin's connection does not reconnect. If the connection fails, or the server is a replica by now, it is closed, a new
//! one is opened, and the command is sent once more. This is safe because every script and command of this app may be
//! repeated. If the server answers that it cannot serve now (`OOM`, `LOADING`), the connection stays.
//!
//! Nor has Spin's connection a timeout: a server that accepts a command and never responds would block a request for
//! ever. After a timeout, which callers also see as `RedisUnavailable`, the result of the command is *unknown* (D8): the
//! connection is closed, the command is not repeated here, and the client gets `503` with `Retry-After`.

use std::{cell::Cell, rc::Rc, time::Duration};

use domain::time::Millis;
use spin_sdk::{
    redis::{Connection, Error, RedisParameter, RedisResult},
    wit_bindgen,
};
use stores::{
    Redis, StoreError,
    ports::{RedisArg, RedisValue},
};

use crate::{
    settings,
    shared_connection::{self, Shared},
    single_flight::Once,
    timeout::with_timeout,
};

/// Timeout for a command.
const REDIS_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Timeout for opening a connection. An engine that limits connections lets an instance wait for one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How often an instance looks whether its connection was used since it last looked.
const IDLE_CHECK: Duration = Duration::from_millis(25);

thread_local! {
    static CONNECTION: Rc<Once<Connection>> = Rc::default();
    /// Whether a command used the connection since the last check.
    static USED: Cell<bool> = const { Cell::new(false) };
    /// Whether [`close_when_idle`] runs.
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// The Redis server that the variable `redis_url` names.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpinRedis;

impl SpinRedis {
    /// Returns the time of Redis's clock.
    ///
    /// # Errors
    /// `RedisUnavailable` if the server did not respond or cannot serve now, `RedisRefused` if it returned another
    /// error, `Malformed` if the reply is not a time.
    pub async fn now(self) -> Result<Millis, StoreError> {
        let mut reply = stores::reply::Reply::new(self.command("TIME", Vec::new()).await?);
        Ok(Millis(reply.int()? * 1000 + reply.int()? / 1000))
    }
}

impl Redis for SpinRedis {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let connection = connection().await?;
        let retry_args = args.clone();
        match with_timeout(REDIS_TIMEOUT, execute(&connection, name, args)).await {
            Some(Err(error)) if error.needs_new_connection() => {
                connection.discard();
                let connection = self::connection().await?;
                let result = with_timeout(REDIS_TIMEOUT, execute(&connection, name, retry_args))
                    .await
                    .unwrap_or_else(|| Err(timeout_error()));
                if result.as_ref().is_err_and(StoreError::needs_new_connection) {
                    connection.discard();
                }
                result
            }
            Some(result) => result,
            None => {
                connection.discard();
                Err(timeout_error())
            }
        }
    }
}

/// The error of a command whose result is unknown: it may have run, or may still run.
fn timeout_error() -> StoreError {
    StoreError::RedisUnavailable("no answer in time".to_owned())
}

async fn connection() -> Result<Shared<Connection>, StoreError> {
    let opening = Shared::open(
        &CONNECTION,
        |_| true,
        async || {
            let url = settings::find(settings::REDIS_URL).await;
            let url = url.map_err(|fault| StoreError::RedisUnavailable(fault.to_string()))?;
            Connection::open(&**url).await.map_err(|error| StoreError::RedisUnavailable(error.to_string()))
        },
    );
    // Waiting for a connection that another request is opening has the same timeout as opening one.
    let connection = with_timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|| Err(timeout_error()))?;
    USED.set(true);
    if !CHECKING.replace(true) {
        wit_bindgen::spawn(close_when_idle());
    }
    Ok(connection)
}

/// Closes the connection when no command has used it for a while. Runs as a task of the request that started it, also
/// after its response; if the engine ends the task early, the next command starts it again.
async fn close_when_idle() {
    struct StopOnDrop;
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            CHECKING.set(false);
        }
    }
    let _stopped = StopOnDrop;
    while USED.replace(false) || !shared_connection::close_unused(&CONNECTION) {
        spin_sdk::time::sleep(IDLE_CHECK).await;
    }
}

async fn execute(connection: &Connection, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
    let args = args.into_iter().map(RedisParameter::Binary);
    match connection.execute(name, args).await {
        Ok(values) => Ok(values.into_iter().map(to_redis_value).collect()),
        Err(Error::Other(text)) => Err(StoreError::from_redis_error(text)),
        Err(error) => Err(StoreError::RedisRefused(error.to_string())),
    }
}

fn to_redis_value(value: RedisResult) -> RedisValue {
    match value {
        RedisResult::Nil => RedisValue::Nil,
        RedisResult::Int64(number) => RedisValue::Int(number),
        RedisResult::Status(text) => RedisValue::Bytes(text.into_bytes()),
        RedisResult::Binary(bytes) => RedisValue::Bytes(bytes),
    }
}
