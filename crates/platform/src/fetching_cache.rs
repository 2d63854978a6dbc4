//! Per-instance [`ttl`](stores::ttl) caches that fetch what they lack.

use std::{cell::RefCell, future::Future, hash::Hash, thread::LocalKey, time::Duration};

use stores::ttl::{self, Lookup};

use crate::{
    clock,
    notify::{self, Notifier},
    timeout::with_timeout,
};

/// How long a request waits for the first fetch of another; after that it fetches by itself.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1);

/// The values by key.
pub type FetchingCache<K, T> = RefCell<ttl::TtlCache<K, T, Notifier>>;

/// Returns the value of `key`, and calls `fetch` first if there is none or it is older than [`ttl::MAX_AGE_MS`].
///
/// Only one request fetches: concurrent requests use the old value for [`ttl::STALE_WHILE_REFRESH_MS`] more, or wait for
/// the first value for up to a second.
///
/// # Errors
/// Those of `fetch`. The entry is then removed, and the next request fetches again.
pub async fn get_or_fetch<K, T, E, F>(
    cache: &'static LocalKey<FetchingCache<K, T>>,
    key: K,
    fetch: impl FnOnce() -> F,
) -> Result<T, E>
where
    K: Hash + Eq + Clone + 'static,
    T: Clone + 'static,
    F: Future<Output = Result<T, E>>,
{
    loop {
        let waiting = cache.with_borrow_mut(|cache| match cache.look_up(&key, clock::now()) {
            Lookup::Found(value) => Ok(value),
            Lookup::Fetch => Err(None),
            Lookup::Wait => {
                let (notifier, fetched) = notify::channel();
                cache.add_waiter(&key, notifier);
                Err(Some(fetched))
            }
        });
        match waiting {
            Ok(value) => return Ok(value),
            Err(Some(fetched)) => {
                if with_timeout(FETCH_TIMEOUT, fetched).await.is_none() {
                    break;
                }
            }
            Err(None) => break,
        }
    }
    let guard = RemoveOnDrop(cache, key.clone());
    let value = fetch().await?;
    std::mem::forget(guard);
    cache.with_borrow_mut(|cache| cache.insert(key, value.clone(), clock::now()));
    Ok(value)
}

/// Removes the entry if the fetch fails or is cancelled, so that the next request tries again.
struct RemoveOnDrop<K: Hash + Eq + Clone + 'static, T: Clone + 'static>(&'static LocalKey<FetchingCache<K, T>>, K);

impl<K: Hash + Eq + Clone, T: Clone> Drop for RemoveOnDrop<K, T> {
    fn drop(&mut self) {
        self.0.with_borrow_mut(|cache| cache.remove(&self.1));
    }
}
