//! Copies that an instance keeps for less than a second: one request fetches, the others read (F1, C8).

use std::{cell::RefCell, collections::HashMap, future::Future, thread::LocalKey, time::Duration};

use stampede_domain::time::Millis;

use crate::clock;

/// How old a copy may be, in milliseconds: with its own fetch, less than a second.
pub const MAX_AGE_MS: i64 = 900;

/// Copies kept at most; beyond that all are dropped, which costs one fetch each.
const MOST: usize = 256;

/// Waits of those who come while the first copy is fetched, and how many.
const LOOK_EVERY: Duration = Duration::from_micros(500);
const LOOKS: usize = 2_000;

/// A kept copy.
pub struct Copy<T> {
    /// When it was fetched.
    pub at: Millis,
    /// What was fetched.
    pub value: T,
}

/// Copies by key: `None` while the first one is being fetched.
pub type Copies<K, T> = RefCell<HashMap<K, Option<Copy<T>>>>;

/// The copy under `key`, fetched where there is none or it is older than `max_age_ms`: by one request, while others
/// read the old one.
///
/// # Errors
/// Those of `fetch`.
pub async fn get<K, T, E, F>(
    copies: &'static LocalKey<Copies<K, T>>,
    key: K,
    max_age_ms: i64,
    fetch: impl FnOnce() -> F,
) -> Result<T, E>
where
    K: std::hash::Hash + Eq + Clone + 'static,
    T: Clone + 'static,
    F: Future<Output = Result<T, E>>,
{
    for _ in 0..LOOKS {
        let now = clock::now();
        let found = copies.with_borrow_mut(|copies| match copies.get_mut(&key) {
            // A copy from the future is from a clock that has jumped: its age is not known.
            Some(Some(copy)) if (0..=max_age_ms).contains(&(now.0 - copy.at.0)) => Some(Some(copy.value.clone())),
            // Too old: this request fetches, and others read on meanwhile.
            Some(Some(copy)) => {
                copy.at = now;
                None
            }
            Some(None) => Some(None),
            None => {
                if copies.len() >= MOST {
                    copies.clear();
                }
                copies.insert(key.clone(), None);
                None
            }
        });
        match found {
            Some(Some(value)) => return Ok(value),
            Some(None) => spin_sdk::time::sleep(LOOK_EVERY).await,
            None => break,
        }
    }
    let guard = Dropped(copies, key.clone());
    let value = fetch().await?;
    std::mem::forget(guard);
    copies.with_borrow_mut(|copies| copies.insert(key, Some(Copy { at: clock::now(), value: value.clone() })));
    Ok(value)
}

/// A fetch that failed, or was called off, leaves no copy behind: the next request tries again.
struct Dropped<K: std::hash::Hash + Eq + 'static, T: 'static>(&'static LocalKey<Copies<K, T>>, K);

impl<K: std::hash::Hash + Eq, T> Drop for Dropped<K, T> {
    fn drop(&mut self) {
        self.0.with_borrow_mut(|copies| copies.remove(&self.1));
    }
}
