//! Copies in an instance's memory that are at most a second old (F1, C8).
//!
//! One request fetches a value. The other requests wait for it if it is the first fetch of the key; during a later
//! fetch they use the old value for a moment.

use std::{collections::HashMap, hash::Hash};

use domain::time::Millis;

/// The age at which a copy is fetched again, in milliseconds. The rest of the second is for the fetch.
pub const MAX_AGE_MS: i64 = 900;

/// How long other requests may use the old copy while one request fetches, in milliseconds; with [`MAX_AGE_MS`], a
/// second in all.
pub const STALE_WHILE_REFRESH_MS: i64 = 100;

/// Maximum number of entries of one cache. When it is reached, a new key clears the cache, which costs one fetch per
/// key.
const MAX_ENTRIES: usize = 256;

/// Whether a copy made at `at` is at most `max_age_ms` old. A copy from the future is not: the clock was set back, and
/// its age is unknown.
pub fn is_fresh(at: Millis, now: Millis, max_age_ms: i64) -> bool {
    (0..=max_age_ms).contains(&(now.0 - at.0))
}

/// Values by key. A waiter `W` wakes a waiting request when it is dropped.
pub struct TtlCache<K, T, W>(HashMap<K, Entry<T, W>>);

impl<K, T, W> Default for TtlCache<K, T, W> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// The state of one key.
enum Entry<T, W> {
    /// One request fetches the first value; these wake the requests that wait.
    Fetching(Vec<W>),
    /// A value and the time from which its age counts. A request that fetches again moves the time, so that the other
    /// requests use the value for [`STALE_WHILE_REFRESH_MS`] longer.
    Cached(T, Millis),
}

/// What a request does about a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// Use this value.
    Found(T),
    /// Fetch the value, then call [`TtlCache::insert`], or [`TtlCache::remove`] if that failed.
    Fetch,
    /// Another request fetches the first value: call [`TtlCache::add_waiter`], wait, and look again.
    Wait,
}

impl<K: Eq + Hash + Clone, T: Clone, W> TtlCache<K, T, W> {
    /// Looks for a value that is fresh at `now`.
    pub fn look_up(&mut self, key: &K, now: Millis) -> Lookup<T> {
        match self.0.get_mut(key) {
            Some(Entry::Cached(value, at)) if is_fresh(*at, now, MAX_AGE_MS) => Lookup::Found(value.clone()),
            // Too old: this request fetches. The other requests use the old value for STALE_WHILE_REFRESH_MS; then one
            // of them fetches, too. Without this limit, they would use it for as long as this fetch takes.
            Some(Entry::Cached(_, at)) => {
                *at = Millis(now.0 - MAX_AGE_MS + STALE_WHILE_REFRESH_MS);
                Lookup::Fetch
            }
            Some(Entry::Fetching(_)) => Lookup::Wait,
            None => {
                if self.0.len() >= MAX_ENTRIES {
                    self.0.clear();
                }
                self.0.insert(key.clone(), Entry::Fetching(Vec::new()));
                Lookup::Fetch
            }
        }
    }

    /// Drops `waiter` when the fetch of `key` ends; at once if there is none.
    pub fn add_waiter(&mut self, key: &K, waiter: W) {
        if let Some(Entry::Fetching(waiters)) = self.0.get_mut(key) {
            waiters.push(waiter);
        }
    }

    /// Stores the value that was fetched at `now`, and wakes the requests that wait for it.
    pub fn insert(&mut self, key: K, value: T, now: Millis) {
        self.0.insert(key, Entry::Cached(value, now));
    }

    /// Removes the value of `key`, and wakes the requests that wait for it; the first of them fetches.
    pub fn remove(&mut self, key: &K) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    type Cache = TtlCache<&'static str, i64, Rc<()>>;

    fn look_up(cache: &mut Cache, now: i64) -> Lookup<i64> {
        cache.look_up(&"key", Millis(now))
    }

    #[test]
    fn a_value_is_used_for_a_second_at_most() {
        let mut cache = Cache::default();
        cache.insert("key", 1, Millis(1_000));
        assert_eq!(look_up(&mut cache, 1_900), Lookup::Found(1));
        assert_eq!(look_up(&mut cache, 1_901), Lookup::Fetch);
        assert_eq!(look_up(&mut cache, 2_000), Lookup::Found(1), "another request fetches");
        assert_eq!(look_up(&mut cache, 2_002), Lookup::Fetch, "the other request takes too long");
    }

    #[test]
    fn a_value_from_the_future_is_fetched_again() {
        let mut cache = Cache::default();
        cache.insert("key", 1, Millis(1_000));
        assert_eq!(look_up(&mut cache, 999), Lookup::Fetch);
    }

    #[test]
    fn requests_wait_for_the_first_value_until_its_fetch_ends() {
        for succeeds in [true, false] {
            let mut cache = Cache::default();
            assert_eq!(look_up(&mut cache, 0), Lookup::Fetch);
            let waiter = Rc::new(());
            assert_eq!(look_up(&mut cache, 5_000), Lookup::Wait);
            cache.add_waiter(&"key", waiter.clone());
            assert_eq!(Rc::strong_count(&waiter), 2);
            if succeeds {
                cache.insert("key", 1, Millis(5_000))
            } else {
                cache.remove(&"key")
            }
            assert_eq!(Rc::strong_count(&waiter), 1);
            assert_eq!(look_up(&mut cache, 5_000), if succeeds { Lookup::Found(1) } else { Lookup::Fetch });
        }
    }

    #[test]
    fn a_waiter_for_no_fetch_is_woken_at_once() {
        let waiter = Rc::new(());
        Cache::default().add_waiter(&"key", waiter.clone());
        assert_eq!(Rc::strong_count(&waiter), 1);
    }

    #[test]
    fn keys_are_bounded() {
        let mut cache = TtlCache::<usize, (), ()>::default();
        for key in 0..10 * MAX_ENTRIES {
            cache.look_up(&key, Millis(0));
            assert!(cache.0.len() <= MAX_ENTRIES);
        }
    }
}
