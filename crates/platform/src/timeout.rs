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
    static CLOCK: Clock = const {
        Clock { ticks: Cell::new(0), begun: Cell::new(0), running: Cell::new(false), waiting: RefCell::new(BTreeMap::new()) }
    };
}

struct Clock {
    ticks: Cell<u64>,
    /// Waits begun.
    begun: Cell<u64>,
    running: Cell<bool>,
    /// The tick at which a wait has lasted too long, and what wakes it then, by the wait's number.
    waiting: RefCell<BTreeMap<u64, (u64, Notifier)>>,
}

/// What `work` answers, unless that takes longer than `patience`, which may last a tick more.
pub async fn with_timeout<T>(timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut wait = None;
    poll_fn(|context| {
        if let Poll::Ready(answer) = work.as_mut().poll(context) {
            return Poll::Ready(Some(answer));
        }
        let wait = wait.get_or_insert_with(|| Wait::begin(timeout));
        while wait.woken.as_mut().poll(context).is_ready() {
            if wait.is_over() {
                return Poll::Ready(None);
            }
            wait.go_on();
        }
        if !CLOCK.with(|clock| clock.running.replace(true)) {
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
    number: u64,
    until: u64,
    woken: Notified,
}

impl Wait {
    fn begin(timeout: Duration) -> Self {
        let ticks = u64::try_from(timeout.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX);
        let number = CLOCK.with(|clock| clock.begun.replace(clock.begun.get() + 1));
        // The tick under way does not count: part of it is over.
        let until = CLOCK.with(|clock| clock.ticks.get() + ticks + 1);
        Self { number, until, woken: notify_at(number, until) }
    }

    fn is_over(&self) -> bool {
        CLOCK.with(|clock| clock.ticks.get() >= self.until)
    }

    fn go_on(&mut self) {
        self.woken = notify_at(self.number, self.until);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        CLOCK.with(|clock| clock.waiting.borrow_mut().remove(&self.number));
    }
}

fn notify_at(number: u64, until: u64) -> Notified {
    let (alarm, woken) = notify::pair();
    CLOCK.with(|clock| clock.waiting.borrow_mut().insert(number, (until, alarm)));
    woken
}

/// Ticks until nobody waits.
async fn run() {
    let _stopped = StopOnDrop;
    while CLOCK.with(|clock| !clock.waiting.borrow().is_empty()) {
        spin_sdk::time::sleep(TICK).await;
        CLOCK.with(|clock| {
            let now = clock.ticks.get() + 1;
            clock.ticks.set(now);
            clock.waiting.borrow_mut().retain(|_, (until, _)| *until > now);
        });
    }
}

/// The clock may be started again. One that stops early, with the request that it began in, wakes those who wait: the
/// first of them starts it again, and they wait on.
struct StopOnDrop;

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let waiting = CLOCK.with(|clock| {
            clock.running.set(false);
            clock.waiting.take()
        });
        drop(waiting);
    }
}
