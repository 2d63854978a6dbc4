//! A thing that an instance makes once and keeps, while up to 16 requests at a time ask for it.

use std::{cell::RefCell, future::Future, rc::Rc, thread::LocalKey, time::Duration};

/// Where the thing is kept.
pub enum Slot<T> {
    /// Nobody has made it.
    Empty,
    /// Somebody is making it.
    Making,
    /// Here it is.
    Made(Rc<T>),
}

/// How often those who wait look again. Requests of one instance cannot wake each other, so they look.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// The thing in `slot`, made by `make` where it is not there yet: by one request, while the others wait.
///
/// # Errors
/// Those of `make`.
pub async fn get_or_make<T: 'static, E, F: Future<Output = Result<T, E>>>(
    slot: &'static LocalKey<RefCell<Slot<T>>>,
    make: impl FnOnce() -> F,
) -> Result<Rc<T>, E> {
    loop {
        enum Next<T> {
            Take(Rc<T>),
            Make,
            Wait,
        }
        let next = slot.with_borrow_mut(|slot| match slot {
            Slot::Made(thing) => Next::Take(thing.clone()),
            Slot::Making => Next::Wait,
            Slot::Empty => {
                *slot = Slot::Making;
                Next::Make
            }
        });
        match next {
            Next::Take(thing) => return Ok(thing),
            Next::Wait => spin_sdk::time::sleep(LOOK_EVERY).await,
            Next::Make => {
                // Dropped half-way (the client went away), the slot is empty again.
                let guard = Emptied(slot);
                let thing = Rc::new(make().await?);
                std::mem::forget(guard);
                slot.set(Slot::Made(thing.clone()));
                return Ok(thing);
            }
        }
    }
}

/// Waits so many milliseconds.
pub async fn pause(ms: i64) {
    spin_sdk::time::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or_default())).await;
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
