//! Per-instance cache of values that are at most a second old (F1, C8).
//!
//! One request fetches a value. The other requests wait for it if it is the first fetch of the key; during a later
//! fetch they use the old value for a moment.

use std::{cell::RefCell, collections::HashMap, future::Future, thread::LocalKey, time::Duration};

use domain::time::Millis;

use crate::{
    clock,
    notify::{self, Notifier},
    timeout::with_timeout,
};

/// The age at which a value is fetched again, in milliseconds. The rest of the second is for the fetch.
pub const MAX_AGE_MS: i64 = 900;

/// How long other requests may use the old value while one request fetches, in milliseconds; with [`MAX_AGE_MS`], a
/// second in all.
pub const STALE_WHILE_REFRESH_MS: i64 = 100;

/// Maximum number of entries of one cache. When it is reached, a new key clears the cache, which costs one fetch per
/// key.
const MAX_ENTRIES: usize = 256;

/// How long a request waits for the first fetch of another; after that it fetches by itself.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1);

/// A value and the time from which its age counts.
pub struct CachedValue<T> {
    /// When the value was fetched, by the instance's clock. A request that fetches again moves it, so that the other
    /// requests use the value for [`STALE_WHILE_REFRESH_MS`] longer.
    pub fresh_from: Millis,
    /// The value.
    pub value: T,
}

/// The entries by key.
pub type TtlCache<K, T> = RefCell<HashMap<K, Entry<T>>>;

/// The state of one key.
pub enum Entry<T> {
    /// One request fetches the first value; these notifiers wake the requests that wait.
    Fetching(Vec<Notifier>),
    /// A value, fresh or old.
    Cached(CachedValue<T>),
}

/// Returns the value of `key`, and calls `fetch` first if there is none or it is older than `max_age_ms`.
///
/// Only one request fetches: concurrent requests use the old value for [`STALE_WHILE_REFRESH_MS`], or wait for the
/// first value for up to a second.
///
/// # Errors
/// Those of `fetch`. The entry is then removed, and the next request fetches again.
pub async fn get_or_fetch<K, T, E, F>(
    cache: &'static LocalKey<TtlCache<K, T>>,
    key: K,
    max_age_ms: i64,
    fetch: impl FnOnce() -> F,
) -> Result<T, E>
where
    K: std::hash::Hash + Eq + Clone + 'static,
    T: Clone + 'static,
    F: Future<Output = Result<T, E>>,
{
    loop {
        let now = clock::now();
        let found = cache.with_borrow_mut(|cache| match cache.get_mut(&key) {
            // A value from the future means that the clock was set back: its age is unknown.
            Some(Entry::Cached(cached)) if (0..=max_age_ms).contains(&(now.0 - cached.fresh_from.0)) => {
                Ok(cached.value.clone())
            }
            // Too old: this request fetches. The other requests use the old value for STALE_WHILE_REFRESH_MS; then one
            // of them fetches, too. Without this limit, they would use it for as long as this fetch takes.
            Some(Entry::Cached(cached)) => {
                cached.fresh_from = Millis(now.0 - max_age_ms + STALE_WHILE_REFRESH_MS);
                Err(None)
            }
            Some(Entry::Fetching(waiters)) => {
                let (notifier, fetched) = notify::channel();
                waiters.push(notifier);
                Err(Some(fetched))
            }
            None => {
                if cache.len() >= MAX_ENTRIES {
                    cache.clear();
                }
                cache.insert(key.clone(), Entry::Fetching(Vec::new()));
                Err(None)
            }
        });
        match found {
            Ok(value) => return Ok(value),
            Err(Some(fetched)) => {
                if with_timeout(FETCH_TIMEOUT, fetched).await.is_none() {
                    break;
                }
            }
            Err(None) => break,
        }
    }
    let guard = EvictOnDrop(cache, key.clone());
    let value = fetch().await?;
    std::mem::forget(guard);
    // Replaces the entry with the notifiers: dropping them wakes the waiters.
    cache.with_borrow_mut(|cache| {
        cache.insert(key, Entry::Cached(CachedValue { fresh_from: clock::now(), value: value.clone() }))
    });
    Ok(value)
}

/// Removes the entry if the fetch fails or is cancelled, so that the next request tries again.
struct EvictOnDrop<K: std::hash::Hash + Eq + 'static, T: 'static>(&'static LocalKey<TtlCache<K, T>>, K);

impl<K: std::hash::Hash + Eq, T> Drop for EvictOnDrop<K, T> {
    fn drop(&mut self) {
        self.0.with_borrow_mut(|cache| cache.remove(&self.1));
    }
}
