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

use crate::alarm::{self, Alarm, Sleep};

const TICK: Duration = Duration::from_millis(250);

thread_local! {
    static CLOCK: Clock = const {
        Clock { ticks: Cell::new(0), begun: Cell::new(0), running: Cell::new(false), waiting: RefCell::new(BTreeMap::new()) }
    };
}

struct Clock {
    ticks: Cell<u64>,
    /// Waits begun; each is called by its number.
    begun: Cell<u64>,
    running: Cell<bool>,
    /// The tick at which a wait has lasted too long, and what wakes it then.
    waiting: RefCell<BTreeMap<u64, (u64, Alarm)>>,
}

/// What `work` answers, unless that takes longer than `patience`, which may last a tick more.
pub async fn within<T>(patience: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut wait = None;
    poll_fn(|context| {
        if let Poll::Ready(answer) = work.as_mut().poll(context) {
            return Poll::Ready(Some(answer));
        }
        let (_, over) = wait.get_or_insert_with(|| begin(patience));
        if over.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
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

fn begin(patience: Duration) -> (Waiting, Sleep) {
    let (alarm, over) = alarm::set();
    let ticks = u64::try_from(patience.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX);
    CLOCK.with(|clock| {
        let number = clock.begun.get() + 1;
        clock.begun.set(number);
        // The tick under way does not count: part of it is over.
        clock.waiting.borrow_mut().insert(number, (clock.ticks.get() + ticks + 1, alarm));
        (Waiting(number), over)
    })
}

/// A wait, by number.
struct Waiting(u64);

impl Drop for Waiting {
    fn drop(&mut self) {
        CLOCK.with(|clock| clock.waiting.borrow_mut().remove(&self.0));
    }
}

/// Ticks until nobody waits.
async fn run() {
    let _stopped = Stopped;
    while CLOCK.with(|clock| !clock.waiting.borrow().is_empty()) {
        spin_sdk::time::sleep(TICK).await;
        CLOCK.with(|clock| {
            let now = clock.ticks.get() + 1;
            clock.ticks.set(now);
            clock.waiting.borrow_mut().retain(|_, (until, _)| *until > now);
        });
    }
}

/// The clock may be started again. One that stops early, with the request that it began in, ends the waits of the others:
/// better too little patience than none to end it.
struct Stopped;

impl Drop for Stopped {
    fn drop(&mut self) {
        CLOCK.with(|clock| {
            clock.running.set(false);
            clock.waiting.borrow_mut().clear();
        });
    }
}
