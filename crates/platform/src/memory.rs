//! Copies that an instance keeps for less than a second: one request fetches, the others read (F1, C8).

use std::{cell::RefCell, collections::HashMap, future::Future, thread::LocalKey, time::Duration};

use domain::time::Millis;

use crate::{
    alarm::{self, Alarm},
    clock,
    patience::within,
};

/// How old a copy may be, in milliseconds: with its own fetch, less than a second.
pub const MAX_AGE_MS: i64 = 900;

/// How much longer others read on while one fetches, in milliseconds: with what it is old already, a second.
pub const READ_ON_MS: i64 = 100;

/// Copies kept at most; beyond that all are dropped, which costs one fetch each.
const MOST: usize = 256;

/// How long those wait who come while the first copy is fetched; then they fetch themselves.
const FETCH: Duration = Duration::from_secs(1);

/// A kept copy.
pub struct Copy<T> {
    /// When it was fetched.
    pub at: Millis,
    /// What was fetched.
    pub value: T,
}

/// Copies by key.
pub type Copies<K, T> = RefCell<HashMap<K, Entry<T>>>;

/// What is known of a copy.
pub enum Entry<T> {
    /// The first one is being fetched; these wait for it.
    Fetching(Vec<Alarm>),
    /// It is there.
    Kept(Copy<T>),
}

/// The copy under `key`, fetched where there is none or it is older than `max_age_ms`: by one request, while others
/// read the old one for a moment.
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
    loop {
        let now = clock::now();
        let found = copies.with_borrow_mut(|copies| match copies.get_mut(&key) {
            // A copy from the future is from a clock that has jumped: its age is not known.
            Some(Entry::Kept(copy)) if (0..=max_age_ms).contains(&(now.0 - copy.at.0)) => Ok(copy.value.clone()),
            // Too old: this request fetches, and others read on for a moment. Were there no end to that, a silent Redis
            // would leave them with what was true long ago.
            Some(Entry::Kept(copy)) => {
                copy.at = Millis(now.0 - max_age_ms + READ_ON_MS);
                Err(None)
            }
            Some(Entry::Fetching(waiting)) => {
                let (alarm, fetched) = alarm::set();
                waiting.push(alarm);
                Err(Some(fetched))
            }
            None => {
                if copies.len() >= MOST {
                    copies.clear();
                }
                copies.insert(key.clone(), Entry::Fetching(Vec::new()));
                Err(None)
            }
        });
        match found {
            Ok(value) => return Ok(value),
            Err(Some(fetched)) => {
                if within(FETCH, fetched).await.is_none() {
                    break;
                }
            }
            Err(None) => break,
        }
    }
    let guard = Dropped(copies, key.clone());
    let value = fetch().await?;
    std::mem::forget(guard);
    copies.with_borrow_mut(|copies| copies.insert(key, Entry::Kept(Copy { at: clock::now(), value: value.clone() })));
    Ok(value)
}

/// A fetch that failed, or was called off, leaves no copy behind: the next request tries again.
struct Dropped<K: std::hash::Hash + Eq + 'static, T: 'static>(&'static LocalKey<Copies<K, T>>, K);

impl<K: std::hash::Hash + Eq, T> Drop for Dropped<K, T> {
    fn drop(&mut self) {
        self.0.with_borrow_mut(|copies| copies.remove(&self.1));
    }
}
