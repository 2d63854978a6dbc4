//! What all instances of the app did, in one hash of Redis (G20), for metrics. Counts of one sale are in its `stats`.
//!
//! Nothing is decided by them: with an empty Redis they begin again at 0.

use std::fmt;

use crate::{
    ports::{Redis, StoreError},
    reply::Reply,
    script::Script,
};

/// The key of the hash.
pub const COUNTS: &str = "stampede:counts";

/// Upper bounds in milliseconds of the buckets of durations, but for the last: those that OpenTelemetry recommends for
/// `http.server.request.duration`.
pub const BUCKETS_MS: [u16; 14] = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000];

/// Something that is counted: a field of the hash, its words separated by spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Count {
    /// Responses with a status. `route` is empty where the path is no route's.
    Request {
        /// The method of the route.
        method: &'static str,
        /// Its path, with names for parameters.
        route: &'static str,
        /// The status.
        status: u16,
        /// With 5xx the code of the problem, else empty.
        code: &'static str,
    },
    /// Measured requests whose duration is in a bucket.
    Duration {
        /// The method of the route.
        method: &'static str,
        /// Its path.
        route: &'static str,
        /// An index of [`BUCKETS_MS`], or its length.
        bucket: usize,
    },
    /// Microseconds of all measured requests.
    Time {
        /// The method of the route.
        method: &'static str,
        /// Its path.
        route: &'static str,
    },
    /// Calls of a store.
    Call {
        /// `redis` or `ledger`.
        store: &'static str,
        /// `script`, `command`, `read` or `write`.
        kind: &'static str,
        /// `ok` or [`StoreError::kind`].
        result: &'static str,
    },
    /// Work by its result.
    Work {
        /// What was worked on.
        kind: &'static str,
        /// How it ended.
        result: &'static str,
    },
    /// When work last had a result, by Redis's clock, in milliseconds. Its number is ignored.
    Last {
        /// What was worked on.
        kind: &'static str,
        /// How it ended.
        result: &'static str,
    },
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { method, route, status, code } => write!(f, "request {method} {route} {status} {code}"),
            Self::Duration { method, route, bucket } => write!(f, "duration {method} {route} {bucket}"),
            Self::Time { method, route } => write!(f, "time {method} {route}"),
            Self::Call { store, kind, result } => write!(f, "call {store} {kind} {result}"),
            Self::Work { kind, result } => write!(f, "work {kind} {result}"),
            Self::Last { kind, result } => write!(f, "last {kind} {result}"),
        }
    }
}

/// Adds counts to those of all instances.
///
/// # Errors
/// [`StoreError`] of Redis: if it is unavailable, they may have been added.
pub async fn add<R: Redis>(redis: &R, counts: &[(Count, i64)]) -> Result<(), StoreError> {
    let args = counts.iter().flat_map(|(count, number)| [count.to_string().into(), number.to_string().into()]);
    ADD_COUNTS.run(redis, vec![COUNTS.to_owned()], args.collect()).await?.after("added").map(|_| ())
}

/// Reads the counts of all instances: the words of each, and its number.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn read<R: Redis>(redis: &R) -> Result<Vec<(Vec<String>, i64)>, StoreError> {
    let mut reply = Reply::new(redis.command("HGETALL", vec![COUNTS.into()]).await?);
    let mut counts = Vec::with_capacity(reply.remaining() / 2);
    while reply.remaining() > 0 {
        counts.push((reply.text()?.split(' ').map(str::to_owned).collect(), reply.int()?));
    }
    counts.sort();
    Ok(counts)
}

/// Adds counts.
pub static ADD_COUNTS: Script = Script::new("add_counts", &[include_str!("../lua/add_counts.lua")]);
