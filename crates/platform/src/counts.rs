//! What this instance did, until it hands that over to the counts of all instances in Redis (G20).
//!
//! A request adds to a map in memory. The first one after a hand-over starts a task that hands over [`DELAY`] later, so that
//! an instance makes one call for all requests in between. What an instance has counted when its engine drops it is lost.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    time::{Duration, Instant},
};

use domain::http::{problem::Code, response::Response, routes::Route};
use spin_sdk::wit_bindgen;
use stores::{
    StoreError,
    counts::{self, BUCKETS_MS, Count},
};

use crate::{random, redis::SpinRedis};

/// How long an instance counts before it hands over: with 250 ms, refusals from memory took a tenth more processor time. An
/// engine drops an instance that has served its share of requests only when its tasks have ended.
const DELAY: Duration = Duration::from_millis(900);

/// The duration of one request in so many is measured.
const MEASURED_OF: u32 = 16;

thread_local! {
    static COUNTS: RefCell<HashMap<Count, i64>> = RefCell::default();
    /// Whether a task waits to hand over.
    static WAITING: Cell<bool> = const { Cell::new(false) };
    /// Requests until one is measured. It begins anywhere: the first request of an instance is the slowest.
    static UNMEASURED: Cell<u32> = Cell::new(u32::from(random::bytes::<1>()[0]) % MEASURED_OF);
}

/// Adds to a count.
pub fn add(count: Count, number: usize) {
    if number > 0 {
        COUNTS.with_borrow_mut(|counts| *counts.entry(count).or_default() += number as i64);
    }
}

/// Adds 1 to work that was done or failed.
pub fn add_work<T, E>(kind: &'static str, result: &Result<T, E>) {
    let result = if result.is_ok() { "ok" } else { "failed" };
    add(Count::Work { kind, result }, 1);
    add(Count::Last { kind, result }, 1);
}

/// Counts a call of a store.
pub fn add_call<T>(store: &'static str, kind: &'static str, result: &Result<T, StoreError>) {
    let result = result.as_ref().map_or_else(StoreError::kind, |_| "ok");
    add(Count::Call { store, kind, result }, 1);
}

/// When the request that begins is to be measured: now, for one in [`MEASURED_OF`].
#[must_use]
pub fn start_of_request() -> Option<Instant> {
    let left = UNMEASURED.get();
    UNMEASURED.set(left.checked_sub(1).unwrap_or(MEASURED_OF - 1));
    (left == 0).then(Instant::now)
}

/// Counts a response, to a request whose route may be unknown, and sees to it that it is handed over.
pub fn end_of_request(route: Option<&'static Route>, response: &Response, start: Option<Instant>) {
    let (method, route) = route.map_or(("", ""), |route| (route.method.as_str(), route.pattern));
    let (status, code) = (response.status, response.code.filter(|code| code.status() >= 500));
    add(Count::Request { method, route, status, code: code.map_or("", Code::as_str) }, 1);
    if let Some(start) = start {
        let elapsed = start.elapsed();
        let bucket = BUCKETS_MS.iter().take_while(|bound| elapsed > Duration::from_millis((**bound).into())).count();
        add(Count::Duration { method, route, bucket }, 1);
        add(Count::Time { method, route }, elapsed.as_micros() as usize);
    }
    hand_over_later();
}

/// Starts the task that hands over, unless one waits.
pub fn hand_over_later() {
    if !WAITING.replace(true) {
        wit_bindgen::spawn(async {
            struct StopOnDrop;
            impl Drop for StopOnDrop {
                fn drop(&mut self) {
                    WAITING.set(false);
                }
            }
            let stopped = StopOnDrop;
            spin_sdk::time::sleep(DELAY).await;
            // What is counted from here on is handed over by the next task.
            drop(stopped);
            hand_over().await;
        });
    }
}

/// Hands over what was counted. If Redis does not take it, it waits for the next time.
pub async fn hand_over() {
    let taken: Vec<_> = COUNTS.take().into_iter().collect();
    if counts::add(&SpinRedis, &taken).await.is_err() {
        taken.into_iter().for_each(|(count, number)| add(count, number as usize));
    }
}
