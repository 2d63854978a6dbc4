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
    make: impl FnOnce() -> F,
) -> Result<Rc<T>, E> {
    loop {
        let made = slot.with_borrow_mut(|slot| match slot {
            AsyncOnce::Ready(thing) => Ok(thing.clone()),
            AsyncOnce::Initialising(waiting) => {
                let (alarm, made) = notify::pair();
                waiting.push(alarm);
                Err(Some(made))
            }
            AsyncOnce::Empty => {
                *slot = AsyncOnce::Initialising(Vec::new());
                Err(None)
            }
        });
        match made {
            Ok(thing) => return Ok(thing),
            Err(Some(made)) => made.await,
            Err(None) => break,
        }
    }
    // Dropped half-way (the client went away), the slot is empty again, and one of those who wait makes the thing.
    let guard = ResetOnDrop(slot);
    let thing = Rc::new(make().await?);
    std::mem::forget(guard);
    slot.set(AsyncOnce::Ready(thing.clone()));
    Ok(thing)
}

/// Forgets `thing`, unless somebody has made a newer one already.
pub fn reset<T>(slot: &'static LocalKey<RefCell<AsyncOnce<T>>>, thing: &Rc<T>) {
    slot.with_borrow_mut(|slot| {
        if matches!(slot, AsyncOnce::Ready(kept) if Rc::ptr_eq(kept, thing)) {
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
