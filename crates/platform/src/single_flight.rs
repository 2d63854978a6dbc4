//! Values that one request of an instance fetches for all of its concurrent requests.
//!
//! If the fetch fails or its request is cancelled, a waiting request takes over.
//!
//! `OnceCell` of Tokio or async-lock would not do: they wake a waiter through its Rust waker, which cannot wake the task
//! of another request ([`notify`]).

use std::{cell::RefCell, rc::Rc, time::Duration};

use domain::time::Millis;
use stores::{
    single_flight::{Action, SingleFlight},
    ttl::is_usable,
};

use crate::{
    clock,
    notify::{self, Notifier},
    timeout::with_timeout,
};

/// How long a request waits for the fetch of a [`Cached`] value by another; after that it fetches by itself.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1);

/// A value, and the requests that wait while one fetches it.
#[derive(Default)]
pub struct Flight<T>(RefCell<SingleFlight<T, Notifier>>);

/// A value that is initialised on first use.
pub type Once<T> = Flight<Option<Rc<T>>>;

/// A value that is at most a second old, and when it was fetched.
pub type Cached<T> = Flight<Option<(T, Millis)>>;

/// What a request does about a value.
pub enum Joined<'a, T, R> {
    /// Use this.
    Use(R),
    /// Fetch the value. Other requests wait while the guard exists; there is none if this request has waited too long
    /// for another's fetch.
    Fetch(Option<Guard<'a, T>>),
}

/// Ends a fetch when it is dropped, and wakes the waiting requests.
pub struct Guard<'a, T>(&'a Flight<T>);

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.0.borrow_mut().end();
    }
}

impl<T> Flight<T> {
    /// Returns what `read` finds in the value; lets the request fetch if that is `None`, or wait for another one that
    /// does, up to `timeout`. `read` also gets whether a request fetches now.
    pub async fn join<R>(
        &self,
        timeout: Option<Duration>,
        read: impl Fn(&mut T, bool) -> Option<R>,
    ) -> Joined<'_, T, R> {
        loop {
            let action = self.0.borrow_mut().enter(&read);
            match action {
                Action::Use(found) => return Joined::Use(found),
                Action::Fetch => return Joined::Fetch(Some(Guard(self))),
                Action::Wait => {}
            }
            let (notifier, ended) = notify::channel();
            self.0.borrow_mut().add_waiter(notifier);
            match timeout {
                None => ended.await,
                Some(timeout) if with_timeout(timeout, ended).await.is_some() => {}
                Some(_) => return Joined::Fetch(None),
            }
        }
    }

    /// Reads or changes the value.
    pub fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.borrow_mut().value)
    }
}

impl<T: Clone> Flight<Option<T>> {
    async fn get<E>(
        &self,
        timeout: Option<Duration>,
        is_usable: impl Fn(&T, bool) -> bool,
        fetch: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let read =
            |value: &mut Option<T>, is_fetching| value.as_ref().filter(|value| is_usable(value, is_fetching)).cloned();
        match self.join(timeout, read).await {
            Joined::Use(value) => Ok(value),
            Joined::Fetch(_guard) => {
                let value = fetch().await?;
                self.0.borrow_mut().set(Some(value.clone()));
                Ok(value)
            }
        }
    }
}

impl<T> Once<T> {
    /// Returns the value; runs `init` first if there is none. Concurrent callers wait for the first one.
    ///
    /// # Errors
    /// Those of `init`, to the caller that ran it; a waiting caller then runs its own `init`.
    pub async fn get_or_init<E>(&self, init: impl AsyncFnOnce() -> Result<T, E>) -> Result<Rc<T>, E> {
        self.get(None, |_, _| true, async || init().await.map(Rc::new)).await
    }
}

impl<T: Clone> Cached<T> {
    /// Returns the value; calls `fetch` first if [it is too old](is_usable). Concurrent callers wait up to a second.
    ///
    /// # Errors
    /// Those of `fetch`; the next request then fetches again.
    pub async fn get_or_fetch<E>(&self, fetch: impl AsyncFnOnce() -> Result<T, E>) -> Result<T, E> {
        let is_usable = |(_, at): &(T, Millis), is_fetching| is_usable(*at, clock::now(), is_fetching);
        let fetch = async || Ok((fetch().await?, clock::now()));
        self.get(Some(FETCH_TIMEOUT), is_usable, fetch).await.map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures::{channel::oneshot, executor::block_on, poll};

    use super::*;

    #[test]
    fn a_waiting_request_takes_over_when_the_fetch_fails_or_its_request_is_cancelled() {
        block_on(async {
            for fails in [true, false] {
                let once = Once::default();
                let (fail, failed) = oneshot::channel();
                let mut first = Box::pin(once.get_or_init(|| failed));
                let [mut second, mut third] =
                    [2, 3].map(|number| Box::pin(once.get_or_init(move || ready(Ok::<_, ()>(number)))));
                assert!(poll!(&mut first).is_pending());
                assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
                if fails {
                    drop(fail);
                    assert!(first.await.is_err());
                } else {
                    drop(first);
                }
                assert_eq!((second.await, third.await), (Ok(Rc::new(2)), Ok(Rc::new(2))));
            }
        });
    }
}
