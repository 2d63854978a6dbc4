//! Limits the connections of an app to one kind of server.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limit that the components of a process share. Without one, every permit is granted at once.
#[derive(Debug, Clone, Default)]
pub struct ConnectionLimit(Option<Arc<Semaphore>>);

/// The right to have a connection open, until it is dropped.
pub struct ConnectionPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl ConnectionLimit {
    /// Allows up to `max` connections at a time; any number if it is `None`.
    pub fn new(max: Option<usize>) -> Self {
        Self(max.map(|max| Arc::new(Semaphore::new(max))))
    }

    /// Waits for a permit, as in Spin without a time limit, in the order of the calls.
    pub async fn acquire(&self) -> ConnectionPermit {
        let permit = match &self.0 {
            // The semaphore is never closed.
            Some(semaphore) => semaphore.clone().acquire_owned().await.ok(),
            None => None,
        };
        ConnectionPermit { _permit: permit }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Poll};

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn a_permit_is_granted_when_another_one_is_dropped_and_always_without_a_limit() {
        let limit = ConnectionLimit::new(Some(2));
        let (first, _second) = (limit.acquire().await, limit.acquire().await);
        let mut third = pin!(limit.acquire());
        let mut fourth = pin!(limit.acquire());
        assert!(poll!(third.as_mut()).is_pending());
        assert!(poll!(fourth.as_mut()).is_pending());
        drop(first);
        let Poll::Ready(_third) = poll!(third.as_mut()) else { panic!("the permit was not handed on") };
        assert!(poll!(fourth.as_mut()).is_pending());
        let unlimited = ConnectionLimit::new(None);
        let _all: Vec<_> = futures::future::join_all((0..1_000).map(|_| unlimited.acquire())).await;
    }
}
