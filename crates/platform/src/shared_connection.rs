//! A connection that the concurrent requests of an instance share while at least one of them uses it.
//!
//! An engine may limit an app's connections, and hands one to another instance only when this one closes it. An idle
//! instance lives on for a second, so it must not keep a connection that it does not use.

use std::{ops::Deref, rc::Rc};

use crate::single_flight::Once;

/// Where an instance keeps a connection.
pub type Slot<T> = Rc<Once<T>>;

/// One use of a shared connection.
pub struct Shared<T> {
    slot: Slot<T>,
    connection: Rc<T>,
    /// Whether the instance keeps the connection when nothing uses it.
    keep_unused: fn(&T) -> bool,
}

impl<T> Shared<T> {
    /// Returns the connection in `slot`; opens one if there is none. Concurrent callers wait for the first one. The last
    /// user closes the connection, unless `keep_unused` says to keep it then.
    pub async fn open<E>(
        slot: Slot<T>,
        keep_unused: fn(&T) -> bool,
        open: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<Self, E> {
        let connection = slot.get_or_init(open).await?;
        Ok(Self { slot, connection, keep_unused })
    }

    /// Makes the next user open a new connection: this one failed. One that was opened since then stays.
    pub fn discard(&self) {
        let is_this = |current: &mut Rc<T>| Rc::ptr_eq(current, &self.connection);
        self.slot.with(|current| drop(current.take_if(is_this)));
    }
}

/// Closes the connection in `slot` if nothing uses it. Returns whether there is none now.
pub fn close_unused<T>(slot: &Slot<T>) -> bool {
    slot.with(|current| {
        drop(current.take_if(|connection| Rc::strong_count(connection) == 1));
        current.is_none()
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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, convert::Infallible};

    use futures::FutureExt;

    use super::*;

    thread_local! {
        static SLOT: Rc<Once<u32>> = Rc::default();
        static OPENED: Cell<u32> = const { Cell::new(0) };
    }

    /// Uses the open connection, or opens the next one: they are numbered.
    fn open(keep_unused: fn(&u32) -> bool) -> Shared<u32> {
        let open = async || {
            OPENED.set(OPENED.get() + 1);
            Ok::<_, Infallible>(OPENED.get())
        };
        let Ok(connection) =
            Shared::open(SLOT.with(Rc::clone), keep_unused, open).now_or_never().expect("it does not wait");
        connection
    }

    #[test]
    fn the_last_user_closes_a_connection_that_is_not_kept() {
        let (first, second) = (open(|_| false), open(|_| false));
        assert_eq!((*first, *second), (1, 1));
        drop(first);
        assert_eq!(*open(|_| false), 1);
        drop(second);
        assert_eq!(*open(|_| false), 2);
    }

    #[test]
    fn a_kept_connection_is_closed_only_while_nothing_uses_it() {
        let user = open(|_| true);
        assert!(!SLOT.with(close_unused));
        drop(user);
        assert_eq!(*open(|_| true), 1);
        assert!(SLOT.with(close_unused) && SLOT.with(close_unused));
        assert_eq!(*open(|_| true), 2);
    }

    #[test]
    fn a_failed_connection_is_replaced_once() {
        let (failed, failed_too) = (open(|_| true), open(|_| true));
        failed.discard();
        assert_eq!(*open(|_| true), 2);
        failed_too.discard();
        assert_eq!(*open(|_| true), 2);
    }
}
