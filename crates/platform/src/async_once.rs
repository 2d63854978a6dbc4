//! A thing that an instance makes once and keeps, while up to 16 requests at a time ask for it.

use std::{cell::RefCell, future::Future, rc::Rc, thread::LocalKey};

use crate::notify::{self, Notifier};

/// Where the thing is kept.
pub enum AsyncOnce<T> {
    /// Nobody has made it.
    Empty,
    /// Somebody is making it; these wait.
    Initialising(Vec<Notifier>),
    /// Here it is.
    Ready(Rc<T>),
}

/// The thing in `slot`, made by `make` where it is not there yet: by one request, while the others wait.
///
/// # Errors
/// Those of `make`.
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
    // Dropped half-way (the client went away), the slot is empty again, and one of those who wait makes the thing.
    let guard = ResetOnDrop(slot);
    let value = Rc::new(init().await?);
    std::mem::forget(guard);
    slot.set(AsyncOnce::Ready(value.clone()));
    Ok(value)
}

/// Forgets `thing`, unless somebody has made a newer one already.
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
