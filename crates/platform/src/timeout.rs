//! Patience: how long a request waits for something.
//!
//! Nearly every wait ends well before its time. A timer for each would nearly always be called off, which costs the
//! engine a stack and more time than the call to Redis that it guards. So an instance has one clock, which ticks for all
//! who wait and stops when nobody does.

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
    ticks: Cell<u64>,
    /// Waits begun.
    next_id: Cell<u64>,
    running: Cell<bool>,
    /// The tick at which a wait has lasted too long, and what wakes it then, by the wait's number.
    waiters: RefCell<BTreeMap<u64, (u64, Notifier)>>,
}

/// What `work` answers, unless that takes longer than `patience`, which may last a tick more.
pub async fn with_timeout<T>(timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut wait = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let wait = wait.get_or_insert_with(|| Wait::start(timeout));
        while wait.notified.as_mut().poll(context).is_ready() {
            if wait.is_elapsed() {
                return Poll::Ready(None);
            }
            wait.rearm();
        }
        if !TIMER.with(|timer| timer.running.replace(true)) {
            wit_bindgen::spawn(run());
            // What is spawned starts when its request is polled again.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

/// A wait, by number; woken when it is over, or when the clock has stopped.
struct Wait {
    id: u64,
    deadline: u64,
    notified: Notified,
}

impl Wait {
    fn start(timeout: Duration) -> Self {
        let ticks = u64::try_from(timeout.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX);
        let id = TIMER.with(|timer| timer.next_id.replace(timer.next_id.get() + 1));
        // The tick under way does not count: part of it is over.
        let deadline = TIMER.with(|timer| timer.ticks.get() + ticks + 1);
        Self { id, deadline, notified: notify_at(id, deadline) }
    }

    fn is_elapsed(&self) -> bool {
        TIMER.with(|timer| timer.ticks.get() >= self.deadline)
    }

    fn rearm(&mut self) {
        self.notified = notify_at(self.id, self.deadline);
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

/// Ticks until nobody waits.
async fn run() {
    let _stopped = StopOnDrop;
    while TIMER.with(|timer| !timer.waiters.borrow().is_empty()) {
        spin_sdk::time::sleep(TICK).await;
        TIMER.with(|timer| {
            let now = timer.ticks.get() + 1;
            timer.ticks.set(now);
            timer.waiters.borrow_mut().retain(|_, (deadline, _)| *deadline > now);
        });
    }
}

/// The clock may be started again. One that stops early, with the request that it began in, wakes those who wait: the
/// first of them starts it again, and they wait on.
struct StopOnDrop;

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let waiters = TIMER.with(|timer| {
            timer.running.set(false);
            timer.waiters.take()
        });
        drop(waiters);
    }
}
