//! Redis through Spin: one connection per instance and server, shared by its concurrent requests.
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
//!
//! Nor does it follow a Redis Cluster. The first `MOVED` makes the instance read which server has which slots; from then on
//! a command goes to the server of its key. What it knows of a server that fails is forgotten, and the seeds are asked.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use domain::time::Millis;
use futures::future::select_ok;
use spin_sdk::{
    redis::{Connection, Error, RedisParameter, RedisResult},
    wit_bindgen,
};
use stores::{
    Redis, StoreError,
    ports::{RedisArg, RedisValue},
};

use crate::{
    clock, counts, settings,
    shared_connection::{self, Shared, Slot},
    timeout::with_timeout,
};

mod cluster;

use cluster::SlotRanges;

/// Timeout for a command.
const REDIS_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Timeout for a key that belongs to no activity, connecting included: what it is for can be done without it.
const SHARED_KEY_TIMEOUT: Duration = Duration::from_millis(300);

/// Timeout for opening a connection. An engine that limits connections lets an instance wait for one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How often an instance looks whether its connections were used since it last looked.
const IDLE_CHECK: Duration = Duration::from_millis(25);

/// How often an instance reads the slots of a cluster at most, in milliseconds. Between, it follows each redirection.
const SLOTS_INTERVAL_MS: i64 = 1_000;

/// How long a server of a cluster that did not answer in time is not asked again, in milliseconds.
const FAILED_MS: i64 = 2_000;

/// An open connection.
struct Server {
    connection: Connection,
    /// The URL that it was opened with.
    url: String,
    /// Whether a command used it since the last check.
    used: Cell<bool>,
}

thread_local! {
    /// The connections by address; under the empty one that to a seed: `redis_url` names one or several servers.
    static CONNECTIONS: RefCell<BTreeMap<String, Slot<Server>>> = RefCell::default();
    /// Which server has which slots, and when that was read. Empty unless a server redirected a command.
    static SLOTS: RefCell<(SlotRanges, Millis)> = const { RefCell::new((Vec::new(), Millis(0))) };
    /// When servers of a cluster did not answer in time, by address.
    static FAILED: RefCell<BTreeMap<String, Millis>> = RefCell::default();
    /// Whether [`close_when_idle`] runs.
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// The Redis server, or the cluster, that the variable `redis_url` names.
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

    /// Returns what each server that has slots replies to `INFO`, with its address; the address is empty if there is no
    /// cluster.
    ///
    /// # Errors
    /// [`StoreError`] of the seeds.
    pub async fn info(self) -> Result<Vec<(String, Result<String, StoreError>)>, StoreError> {
        let info = text(self.command("INFO", Vec::new()).await?);
        if !info.contains("cluster_enabled:1") {
            return Ok(vec![(String::new(), Ok(info))]);
        }
        let ranges = read_slots("").await?;
        let addresses: BTreeSet<_> = ranges.into_iter().map(|(_, address)| address).collect();
        let replies = addresses.into_iter().map(async |address| {
            let reply = run_at(&address, "INFO", &[], REDIS_TIMEOUT).await;
            (address, reply.map(text))
        });
        Ok(futures::future::join_all(replies).await)
    }
}

impl Redis for SpinRedis {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let result = match cluster::key_of(name, &args) {
            Some(key) if !key.starts_with(b"{") => run_in_cluster(name, &args, SHARED_KEY_TIMEOUT).await,
            Some(_) => run_in_cluster(name, &args, REDIS_TIMEOUT).await,
            None => run_at("", name, &args, REDIS_TIMEOUT).await,
        };
        counts::add_call("redis", if name.starts_with("EVAL") { "script" } else { "command" }, &result);
        result
    }
}

/// Runs a command at the server that has its key, as far as this instance knows, and where that server sends it.
async fn run_in_cluster(name: &str, args: &[RedisArg], timeout: Duration) -> Result<Vec<RedisValue>, StoreError> {
    let address = SLOTS.with_borrow(|(ranges, _)| {
        let slot = cluster::slot_of(cluster::key_of(name, args).filter(|_| !ranges.is_empty())?);
        ranges.iter().find(|(range, _)| range.contains(&slot)).map(|(_, address)| address.clone())
    });
    let address = address.unwrap_or_default();
    let result = run_at(&address, name, args, timeout).await;
    let Err(error) = &result else { return result };
    let Some(moved_to) = error.moved_to() else {
        if error.needs_new_connection() {
            SLOTS.with_borrow_mut(|(ranges, _)| ranges.retain(|(_, known)| *known != address));
        }
        return result;
    };
    let host = server(&address, CONNECT_TIMEOUT).await.map(|server| cluster::host_of(&server.url).to_owned())?;
    let moved_to = cluster::full_address(moved_to, &host);
    let now = clock::now();
    if SLOTS.with_borrow(|(_, read_at)| now.0 - read_at.0 >= SLOTS_INTERVAL_MS) {
        SLOTS.with_borrow_mut(|(_, read_at)| *read_at = now);
        if let Ok(ranges) = read_slots(&address).await {
            SLOTS.with_borrow_mut(|(known, _)| *known = ranges);
        }
    }
    run_at(&moved_to, name, args, timeout).await
}

/// Reads which server has which slots.
async fn read_slots(address: &str) -> Result<SlotRanges, StoreError> {
    let nodes = text(run_at(address, "CLUSTER", &["NODES".into()], REDIS_TIMEOUT).await?);
    let host = server(address, CONNECT_TIMEOUT).await.map(|server| cluster::host_of(&server.url).to_owned())?;
    Ok(cluster::parse_nodes(&nodes, &host))
}

/// Runs a command at one server; an empty address is that of a seed.
async fn run_at(
    address: &str,
    name: &str,
    args: &[RedisArg],
    timeout: Duration,
) -> Result<Vec<RedisValue>, StoreError> {
    let connect_timeout = if timeout < REDIS_TIMEOUT { timeout } else { CONNECT_TIMEOUT };
    let connection = server(address, connect_timeout).await?;
    match with_timeout(timeout, execute(&connection, name, args)).await {
        Some(Err(error)) if error.needs_new_connection() => {
            connection.discard();
            let connection = server(address, connect_timeout).await?;
            let result = with_timeout(timeout, execute(&connection, name, args))
                .await
                .unwrap_or_else(|| Err(timeout_error(address, timeout)));
            if result.as_ref().is_err_and(StoreError::needs_new_connection) {
                connection.discard();
            }
            result
        }
        Some(result) => result,
        None => {
            connection.discard();
            Err(timeout_error(address, timeout))
        }
    }
}

/// The error of a command whose result is unknown: it may have run, or may still run.
fn timeout_error(address: &str, timeout: Duration) -> StoreError {
    if !address.is_empty() && timeout >= REDIS_TIMEOUT {
        FAILED.with_borrow_mut(|failed| failed.insert(address.to_owned(), clock::now()));
    }
    StoreError::RedisUnavailable("no answer in time".to_owned())
}

async fn server(address: &str, timeout: Duration) -> Result<Shared<Server>, StoreError> {
    let has_failed =
        |failed: &BTreeMap<_, Millis>| failed.get(address).is_some_and(|at| clock::now().0 - at.0 < FAILED_MS);
    if FAILED.with_borrow(has_failed) {
        return Err(StoreError::RedisUnavailable(format!("{address} did not answer a moment ago")));
    }
    let slot = CONNECTIONS.with_borrow_mut(|connections| match connections.get(address) {
        Some(slot) => Rc::clone(slot),
        None => Rc::clone(connections.entry(address.to_owned()).or_default()),
    });
    let opening = Shared::open(
        slot,
        |_| true,
        async || {
            let url = settings::find(settings::REDIS_URL).await;
            let urls = url.map_err(|fault| StoreError::RedisUnavailable(fault.to_string()))?;
            let seeds = urls.split_ascii_whitespace();
            if address.is_empty() {
                // The first that answers.
                let opening: Vec<_> = seeds.map(|url| Box::pin(open(url.to_owned()))).collect();
                if opening.is_empty() {
                    return Err(StoreError::RedisUnavailable("the variable redis_url is empty".to_owned()));
                }
                return select_ok(opening).await.map(|(server, _)| server);
            }
            let url = cluster::with_address(urls.split_ascii_whitespace().next().unwrap_or_default(), address);
            let because = |error| {
                StoreError::RedisUnavailable(format!(
                    "{address}, a server of the cluster (does redis_host allow it?): {error}"
                ))
            };
            open(url).await.map_err(because)
        },
    );
    // Waiting for a connection that another request is opening has the same timeout as opening one.
    let server = with_timeout(timeout, opening).await.unwrap_or_else(|| Err(timeout_error(address, timeout)))?;
    server.used.set(true);
    if !CHECKING.replace(true) {
        wit_bindgen::spawn(close_when_idle());
    }
    Ok(server)
}

async fn open(url: String) -> Result<Server, StoreError> {
    let connection = Connection::open(&url).await.map_err(|error| StoreError::RedisUnavailable(error.to_string()))?;
    Ok(Server { connection, url, used: Cell::new(true) })
}

/// Closes the connections when no command has used one for a while. Runs as a task of the request that started it, also
/// after its response; if the engine ends the task early, the next command starts it again.
async fn close_when_idle() {
    struct StopOnDrop;
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            CHECKING.set(false);
        }
    }
    let _stopped = StopOnDrop;
    let close_unused = || {
        CONNECTIONS.with_borrow_mut(|connections| {
            connections.retain(|_, slot| {
                let is_used = slot.with(|server| server.as_ref().is_some_and(|server| server.used.replace(false)));
                // A request that opens one, or uses it, refers to its slot.
                is_used || Rc::strong_count(slot) > 1 || !shared_connection::close_unused(slot)
            });
            connections.is_empty()
        })
    };
    while !close_unused() {
        spin_sdk::time::sleep(IDLE_CHECK).await;
    }
}

async fn execute(server: &Server, name: &str, args: &[RedisArg]) -> Result<Vec<RedisValue>, StoreError> {
    let args = args.iter().cloned().map(RedisParameter::Binary);
    match server.connection.execute(name, args).await {
        Ok(values) => Ok(values.into_iter().map(to_redis_value).collect()),
        Err(Error::Other(text)) => Err(StoreError::from_redis_error(text)),
        Err(error) => Err(StoreError::RedisRefused(error.to_string())),
    }
}

/// The first text of a reply.
fn text(reply: Vec<RedisValue>) -> String {
    let text = reply.into_iter().find_map(|value| match value {
        RedisValue::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    });
    text.unwrap_or_default()
}

fn to_redis_value(value: RedisResult) -> RedisValue {
    match value {
        RedisResult::Nil => RedisValue::Nil,
        RedisResult::Int64(number) => RedisValue::Int(number),
        RedisResult::Status(text) => RedisValue::Bytes(text.into_bytes()),
        RedisResult::Binary(bytes) => RedisValue::Bytes(bytes),
    }
}
