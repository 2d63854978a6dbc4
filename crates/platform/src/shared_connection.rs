//! A connection that the concurrent requests of an instance share while at least one of them uses it.
//!
//! An engine may limit an app's connections, and hands one to another instance only when this one closes it. An idle
//! instance lives on for a second, so it must not keep a connection that it does not use.

use std::{cell::RefCell, future::Future, ops::Deref, rc::Rc, thread::LocalKey};

use crate::async_once::{self, AsyncOnce};

/// Where an instance keeps a connection.
pub type Slot<T> = LocalKey<RefCell<AsyncOnce<T>>>;

/// One use of a shared connection.
pub struct Shared<T: 'static> {
    slot: &'static Slot<T>,
    connection: Rc<T>,
    /// Whether the instance keeps the connection when nothing uses it.
    keep_unused: fn(&T) -> bool,
}

impl<T> Shared<T> {
    /// Returns the connection in `slot`; opens one if there is none. Concurrent callers wait for the first one. The last
    /// user closes the connection, unless `keep_unused` says to keep it then.
    ///
    /// # Errors
    /// Those of `open`, to the caller that ran it; a waiting caller then runs its own `open`.
    pub async fn open<E, F: Future<Output = Result<T, E>>>(
        slot: &'static Slot<T>,
        keep_unused: fn(&T) -> bool,
        open: impl FnOnce() -> F,
    ) -> Result<Self, E> {
        Ok(Self { slot, connection: async_once::get_or_init(slot, open).await?, keep_unused })
    }

    /// Makes the next user open a new connection: this one failed.
    pub fn discard(&self) {
        async_once::reset(self.slot, &self.connection);
    }
}

/// Closes the connection in `slot` if nothing uses it. Returns whether there is none now.
pub fn close_unused<T>(slot: &'static Slot<T>) -> bool {
    slot.with_borrow_mut(|slot| match slot {
        AsyncOnce::Ready(connection) if Rc::strong_count(connection) == 1 => {
            *slot = AsyncOnce::Empty;
            true
        }
        AsyncOnce::Ready(_) | AsyncOnce::Initialising(_) => false,
        AsyncOnce::Empty => true,
    })
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.connection
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // One reference is the slot's.
        if Rc::strong_count(&self.connection) == 2 && !(self.keep_unused)(&self.connection) {
            self.discard();
        }
    }
}
