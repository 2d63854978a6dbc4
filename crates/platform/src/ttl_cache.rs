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
    pub at: Millis,
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
pub async fn get<K, T, E, F>(
    copies: &'static LocalKey<TtlCache<K, T>>,
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
        let found = copies.with_borrow_mut(|copies| match copies.get_mut(&key) {
            // A copy from the future is from a clock that has jumped: its age is not known.
            Some(Entry::Cached(copy)) if (0..=max_age_ms).contains(&(now.0 - copy.at.0)) => Ok(copy.value.clone()),
            // Too old: this request fetches, and others read on for a moment. Were there no end to that, a silent Redis
            // would leave them with what was true long ago.
            Some(Entry::Cached(copy)) => {
                copy.at = Millis(now.0 - max_age_ms + STALE_WHILE_REFRESH_MS);
                Err(None)
            }
            Some(Entry::Fetching(waiting)) => {
                let (alarm, fetched) = notify::pair();
                waiting.push(alarm);
                Err(Some(fetched))
            }
            None => {
                if copies.len() >= MAX_ENTRIES {
                    copies.clear();
                }
                copies.insert(key.clone(), Entry::Fetching(Vec::new()));
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
    let guard = EvictOnDrop(copies, key.clone());
    let value = fetch().await?;
    std::mem::forget(guard);
    copies.with_borrow_mut(|copies| {
        copies.insert(key, Entry::Cached(CachedValue { at: clock::now(), value: value.clone() }))
    });
    Ok(value)
}

/// A fetch that failed, or was called off, leaves no copy behind: the next request tries again.
struct EvictOnDrop<K: std::hash::Hash + Eq + 'static, T: 'static>(&'static LocalKey<TtlCache<K, T>>, K);

impl<K: std::hash::Hash + Eq, T> Drop for EvictOnDrop<K, T> {
    fn drop(&mut self) {
        self.0.with_borrow_mut(|copies| copies.remove(&self.1));
    }
}
