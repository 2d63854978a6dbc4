//! A machine for tests of what instances share: included by the tests that use it.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::{KeyValue, Millis, Redis, RedisArg, RedisValue, StoreError};

/// A machine with one clock, a key-value store and a Redis that knows leases. A sleep moves the clock on.
#[derive(Default)]
pub struct Machine {
    pub now: Cell<i64>,
    pub random: Cell<u128>,
    pub copies: RefCell<HashMap<String, Vec<u8>>>,
    pub reads: Cell<usize>,
    /// The owner of the lease, and until when.
    pub lease: RefCell<Option<(RedisArg, i64)>>,
    /// How often the value was fetched.
    pub fetches: Cell<usize>,
}

impl KeyValue for Machine {
    fn now(&self) -> Millis {
        Millis(self.now.get())
    }

    fn random_bits(&self) -> u128 {
        self.random.replace(self.random.get() + 1)
    }

    /// The first request that sleeps moves the clock; all of them wait until it is `ms` later.
    async fn sleep(&self, ms: i64) {
        let until = self.now.get() + ms;
        poll_fn(|_| {
            if self.now.get() >= until {
                return Poll::Ready(());
            }
            self.now.set(self.now.get() + 10);
            Poll::Pending
        })
        .await;
    }

    async fn read_copy(&self, key: &str) -> Option<Vec<u8>> {
        self.reads.set(self.reads.get() + 1);
        self.copies.borrow().get(key).cloned()
    }

    async fn write_copy(&self, key: &str, value: &[u8]) {
        self.copies.borrow_mut().insert(key.to_owned(), value.to_vec());
    }
}

impl Redis for Machine {
    async fn command(&self, _: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let [_, _, _, owner, ttl] = &args[..] else { panic!("not the script of leases") };
        let ttl: i64 = std::str::from_utf8(ttl).ok().and_then(|text| text.parse().ok()).expect("a duration");
        let mut lease = self.lease.borrow_mut();
        let is_free = lease.as_ref().is_none_or(|(held_by, until)| held_by == owner || *until <= self.now.get());
        if is_free {
            *lease = (ttl > 0).then(|| (owner.clone(), self.now.get() + ttl));
        }
        Ok(vec![RedisValue::Bytes(if is_free && ttl > 0 { b"held".into() } else { b"other".into() })])
    }
}

impl Machine {
    pub fn run<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
        }
    }
}
