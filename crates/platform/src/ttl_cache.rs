//! Copies that an instance keeps for less than a second: one request fetches, the others read (F1, C8).

use std::{cell::RefCell, collections::HashMap, future::Future, thread::LocalKey, time::Duration};

use domain::time::Millis;

use crate::{
    clock,
    notify::{self, Notifier},
    timeout::with_timeout,
};

/// How old a copy may be, in milliseconds: with its own fetch, less than a second.
pub const MAX_AGE_MS: i64 = 900;

/// How much longer others read on while one fetches, in milliseconds: with what it is old already, a second.
pub const STALE_WHILE_REFRESH_MS: i64 = 100;

/// Copies kept at most; beyond that all are dropped, which costs one fetch each.
const MAX_ENTRIES: usize = 256;

/// How long those wait who come while the first copy is fetched; then they fetch themselves.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1);

/// A kept copy.
pub struct CachedValue<T> {
    /// When it was fetched.
    pub fetched_at: Millis,
    /// What was fetched.
    pub value: T,
}

/// Copies by key.
pub type TtlCache<K, T> = RefCell<HashMap<K, Entry<T>>>;

/// What is known of a copy.
pub enum Entry<T> {
    /// The first one is being fetched; these wait for it.
    Fetching(Vec<Notifier>),
    /// It is there.
    Cached(CachedValue<T>),
}

/// The copy under `key`, fetched where there is none or it is older than `max_age_ms`: by one request, while others
/// read the old one for a moment.
///
/// # Errors
/// Those of `fetch`.
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
            // A copy from the future is from a clock that has jumped: its age is not known.
            Some(Entry::Cached(cached)) if (0..=max_age_ms).contains(&(now.0 - cached.fetched_at.0)) => {
                Ok(cached.value.clone())
            }
            // Too old: this request fetches, and others read on for a moment. Were there no end to that, a silent Redis
            // would leave them with what was true long ago.
            Some(Entry::Cached(cached)) => {
                cached.fetched_at = Millis(now.0 - max_age_ms + STALE_WHILE_REFRESH_MS);
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
    cache.with_borrow_mut(|cache| {
        cache.insert(key, Entry::Cached(CachedValue { fetched_at: clock::now(), value: value.clone() }))
    });
    Ok(value)
}

/// A fetch that failed, or was called off, leaves no copy behind: the next request tries again.
struct EvictOnDrop<K: std::hash::Hash + Eq + 'static, T: 'static>(&'static LocalKey<TtlCache<K, T>>, K);

impl<K: std::hash::Hash + Eq, T> Drop for EvictOnDrop<K, T> {
    fn drop(&mut self) {
        self.0.with_borrow_mut(|cache| cache.remove(&self.1));
    }
}
