//! Per-instance value that is initialised on first use.
//!
//! An instance serves up to 16 requests at once: one of them initialises, the others wait for it. A failed or cancelled
//! initialisation leaves the value empty, and the next request tries again.
//!
//! `OnceCell` of Tokio or async-lock would not do: they wake a waiter through its Rust waker, which cannot wake the task
//! of another request ([`notify`]).

use std::{cell::RefCell, future::Future, rc::Rc, thread::LocalKey};

use crate::notify::{self, Notifier};

/// The state of the value.
pub enum AsyncOnce<T> {
    /// Not initialised, or reset.
    Empty,
    /// One request initialises it; these notifiers wake the requests that wait.
    Initialising(Vec<Notifier>),
    /// Initialised.
    Ready(Rc<T>),
}

/// Returns the value in `slot`, and runs `init` first if it is empty. Concurrent callers wait for the first one.
///
/// # Errors
/// Those of `init`, to the caller that ran it; a waiting caller then runs its own `init`.
pub async fn get_or_init<T: 'static, E, F: Future<Output = Result<T, E>>>(
    slot: &'static LocalKey<RefCell<AsyncOnce<T>>>,
    init: impl FnOnce() -> F,
) -> Result<Rc<T>, E> {
    loop {
        let ready = slot.with_borrow_mut(|slot| match slot {
            AsyncOnce::Ready(value) => Ok(value.clone()),
            AsyncOnce::Initialising(waiters) => {
                let (notifier, ready) = notify::channel();
                waiters.push(notifier);
                Err(Some(ready))
            }
            AsyncOnce::Empty => {
                *slot = AsyncOnce::Initialising(Vec::new());
                Err(None)
            }
        });
        match ready {
            Ok(value) => return Ok(value),
            Err(Some(ready)) => ready.await,
            Err(None) => break,
        }
    }
    // If this future is dropped here (the client disconnected), the guard empties the slot, and a waiter takes over.
    let guard = ResetOnDrop(slot);
    let value = Rc::new(init().await?);
    std::mem::forget(guard);
    // Replaces the notifiers: dropping them wakes the waiters.
    slot.set(AsyncOnce::Ready(value.clone()));
    Ok(value)
}

/// Empties the slot if it still holds `value`; a newer value that another request initialised stays.
pub fn reset<T>(slot: &'static LocalKey<RefCell<AsyncOnce<T>>>, value: &Rc<T>) {
    slot.with_borrow_mut(|slot| {
        if matches!(slot, AsyncOnce::Ready(current) if Rc::ptr_eq(current, value)) {
            *slot = AsyncOnce::Empty;
        }
    });
}

struct ResetOnDrop<T: 'static>(&'static LocalKey<RefCell<AsyncOnce<T>>>);

impl<T> Drop for ResetOnDrop<T> {
    fn drop(&mut self) {
        self.0.set(AsyncOnce::Empty);
    }
}
