//! Timeouts for futures, with one timer per instance.
//!
//! Nearly every future completes in time. Starting and cancelling an engine timer for each one costs the engine a stack
//! and takes longer than the Redis call that it guards. So each instance has one timer, which ticks every 250 ms while
//! there are waiters and stops when there are none.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use spin_sdk::wit_bindgen;

use crate::notify::{self, Notified, Notifier};

const TICK: Duration = Duration::from_millis(250);

thread_local! {
    static TIMER: Timer = const {
        Timer { ticks: Cell::new(0), next_id: Cell::new(0), running: Cell::new(false), waiters: RefCell::new(BTreeMap::new()) }
    };
}

struct Timer {
    /// Ticks so far; the timer does not tick while there are no waiters.
    ticks: Cell<u64>,
    next_id: Cell<u64>,
    running: Cell<bool>,
    /// The tick at which a waiter's timeout has elapsed, and its notifier, by the waiter's id.
    waiters: RefCell<BTreeMap<u64, (u64, Notifier)>>,
}

/// Returns the output of `future`, or `None` if it takes longer than `timeout`.
///
/// The timeout is rounded up to whole ticks of 250 ms and may last one tick more.
pub async fn with_timeout<T>(timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut wait = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let wait = wait.get_or_insert_with(|| Wait::start(timeout));
        while wait.notified.as_mut().poll(context).is_ready() {
            if TIMER.with(|timer| timer.ticks.get() >= wait.deadline) {
                return Poll::Ready(None);
            }
            wait.notified = notify_at(wait.id, wait.deadline);
        }
        if !TIMER.with(|timer| timer.running.replace(true)) {
            wit_bindgen::spawn(run());
            // A spawned task starts when the request that spawned it is polled again.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

/// A registered waiter. It is notified when its deadline has passed, and when the timer stops early.
struct Wait {
    id: u64,
    deadline: u64,
    notified: Notified,
}

impl Wait {
    fn start(timeout: Duration) -> Self {
        let ticks = u64::try_from(timeout.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX);
        let id = TIMER.with(|timer| timer.next_id.replace(timer.next_id.get() + 1));
        // The current tick does not count, because part of it has passed.
        let deadline = TIMER.with(|timer| timer.ticks.get() + ticks + 1);
        Self { id, deadline, notified: notify_at(id, deadline) }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        TIMER.with(|timer| timer.waiters.borrow_mut().remove(&self.id));
    }
}

fn notify_at(id: u64, deadline: u64) -> Notified {
    let (notifier, notified) = notify::channel();
    TIMER.with(|timer| timer.waiters.borrow_mut().insert(id, (deadline, notifier)));
    notified
}

/// Ticks until there are no waiters.
async fn run() {
    let _stopped = StopOnDrop;
    while TIMER.with(|timer| !timer.waiters.borrow().is_empty()) {
        spin_sdk::time::sleep(TICK).await;
        TIMER.with(|timer| {
            let now = timer.ticks.get() + 1;
            timer.ticks.set(now);
            // Dropping a notifier wakes its waiter.
            timer.waiters.borrow_mut().retain(|_, (deadline, _)| *deadline > now);
        });
    }
}

/// Marks the timer as stopped.
///
/// The timer runs as a task of the request that started it, and ends with that request. If waiters of other requests
/// remain, they are woken; the first one starts the timer again, and all of them continue to wait.
struct StopOnDrop;

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let waiters = TIMER.with(|timer| {
            timer.running.set(false);
            timer.waiters.take()
        });
        // Dropping a notifier wakes its waiter.
        drop(waiters);
    }
}
