//! A thing that an instance makes once and keeps, while up to 16 requests at a time ask for it.

use std::{cell::RefCell, future::Future, rc::Rc, thread::LocalKey};

use crate::alarm::{self, Alarm};

/// Where the thing is kept.
pub enum Slot<T> {
    /// Nobody has made it.
    Empty,
    /// Somebody is making it; these wait.
    Making(Vec<Alarm>),
    /// Here it is.
    Made(Rc<T>),
}

/// The thing in `slot`, made by `make` where it is not there yet: by one request, while the others wait.
///
/// # Errors
/// Those of `make`.
pub async fn get_or_make<T: 'static, E, F: Future<Output = Result<T, E>>>(
    slot: &'static LocalKey<RefCell<Slot<T>>>,
    make: impl FnOnce() -> F,
) -> Result<Rc<T>, E> {
    loop {
        let made = slot.with_borrow_mut(|slot| match slot {
            Slot::Made(thing) => Ok(thing.clone()),
            Slot::Making(waiting) => {
                let (alarm, made) = alarm::set();
                waiting.push(alarm);
                Err(Some(made))
            }
            Slot::Empty => {
                *slot = Slot::Making(Vec::new());
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
    let guard = Emptied(slot);
    let thing = Rc::new(make().await?);
    std::mem::forget(guard);
    slot.set(Slot::Made(thing.clone()));
    Ok(thing)
}

/// Forgets `thing`, unless somebody has made a newer one already.
pub fn forget<T>(slot: &'static LocalKey<RefCell<Slot<T>>>, thing: &Rc<T>) {
    slot.with_borrow_mut(|slot| {
        if matches!(slot, Slot::Made(kept) if Rc::ptr_eq(kept, thing)) {
            *slot = Slot::Empty;
        }
    });
}

struct Emptied<T: 'static>(&'static LocalKey<RefCell<Slot<T>>>);

impl<T> Drop for Emptied<T> {
    fn drop(&mut self) {
        self.0.set(Slot::Empty);
    }
}
