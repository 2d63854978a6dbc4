//! Values that all instances share: a copy in key-value, which one request at a time fetches anew (F2).
//!
//! The request that gets the lease in Redis fetches; the others use the stale copy, or wait. Without Redis each fetches. While the source (the
//! ledger or the issuer) is unavailable, the stale copy is used and the source is tried once per lease time.
//! Without a copy, the error is shared for a second.

use domain::time::Millis;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    lease,
    ports::{KeyValue, Redis, StoreError},
};

/// Interval at which a request polls for the copy that another request fetches, in milliseconds.
const POLL_INTERVAL_MS: i64 = 50;

/// How long the error of a fetch is returned to other requests, in milliseconds.
const ERROR_MS: i64 = 1_000;

/// By how much the clock of the host that wrote a copy may be ahead, in milliseconds. What a clock that is further ahead
/// has written is not used: it would be for as long as the clock is ahead.
const MAX_SKEW_MS: i64 = 1_000;

/// Whether `now` is before `until`, and at most `max_ms` before it.
fn is_before(now: Millis, until: Millis, max_ms: i64) -> bool {
    (1..=max_ms + MAX_SKEW_MS).contains(&(until.0 - now.0))
}

/// Where a value is shared, and for how long.
pub struct SharedValue<'a> {
    /// The key of the copy in key-value.
    pub key: &'a str,
    /// The Redis key of the lease to fetch the value.
    pub lease_key: &'a str,
    /// How long the lease lasts, in milliseconds: longer than a fetch.
    pub lease_ms: i64,
    /// How long a copy is fresh, in milliseconds. Up to a sixth is added, so that copies that were written together do
    /// not become stale together (F4). `None`: only for requests that began before the fetch.
    pub fresh_ms: Option<i64>,
    /// Maximum age of a copy that is used while another request fetches or the source is unavailable, in milliseconds;
    /// -1: no such copy is used.
    pub max_age_ms: i64,
    /// How long a request without a copy waits for another's fetch, in milliseconds; after that it fetches by itself.
    pub max_wait_ms: i64,
}

/// A copy as stored in key-value.
#[derive(Serialize, Deserialize)]
struct StoredCopy<T> {
    /// When the fetch began, by the clock of the instance that fetched.
    at: Millis,
    fresh_until: Millis,
    value: Option<T>,
    /// The error of a later fetch, which other requests return until `error_until`.
    error: String,
    /// Whether it is the issuer's, else the ledger's.
    #[serde(default)]
    is_issuers: bool,
    error_until: Millis,
}

impl<T> StoredCopy<T> {
    fn new(at: Millis, fresh_until: Millis, value: Option<T>) -> Self {
        Self { at, fresh_until, value, error: String::new(), is_issuers: false, error_until: Millis(0) }
    }

    fn into_value(self) -> Result<T, StoreError> {
        self.value.ok_or_else(|| StoreError::Malformed("a copy without a value".to_owned()))
    }
}

impl SharedValue<'_> {
    /// Returns the copy if it is fresh and `is_usable`; else fetches, or uses what another request fetches.
    ///
    /// # Errors
    /// Those of `fetch`, in this or in another request; `RedisRefused`.
    pub async fn get<R: Redis, K: KeyValue, T: Serialize + DeserializeOwned>(
        &self,
        redis: &R,
        key_value: &K,
        is_usable: impl Fn(&T) -> bool,
        fetch: impl AsyncFnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.get_current(redis, key_value, is_usable, |_| true, fetch).await
    }

    /// Like [`SharedValue::get`], but a copy that is not current is not fresh.
    pub async fn get_current<R: Redis, K: KeyValue, T: Serialize + DeserializeOwned>(
        &self,
        redis: &R,
        key_value: &K,
        is_usable: impl Fn(&T) -> bool,
        is_current: impl Fn(&T) -> bool,
        fetch: impl AsyncFnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let began = key_value.now();
        let random = key_value.random_bits();
        let owner = format!("{random:032x}");
        let (copy, is_stale, has_lease) = loop {
            let now = key_value.now();
            let copy = read::<K, T>(key_value, self.key).await;
            let is_usable = copy.at <= now.plus(MAX_SKEW_MS) && copy.value.as_ref().is_some_and(&is_usable);
            let is_fresh = match self.fresh_ms {
                Some(fresh_ms) => is_before(now, copy.fresh_until, fresh_ms + fresh_ms / 6),
                None => began < copy.at && copy.at <= now,
            };
            if is_usable && is_fresh && copy.value.as_ref().is_some_and(&is_current) {
                return copy.into_value();
            }
            let is_stale = is_usable && now.0 - copy.at.0 <= self.max_age_ms;
            if !is_stale && is_before(now, copy.error_until, ERROR_MS) {
                let unavailable =
                    if copy.is_issuers { StoreError::IssuerUnavailable } else { StoreError::LedgerUnavailable };
                return Err(unavailable(copy.error));
            }
            match lease::hold(redis, self.lease_key, &owner, self.lease_ms).await {
                Ok(true) => break (copy, is_stale, true),
                Err(StoreError::RedisUnavailable(_)) => break (copy, is_stale, false),
                Ok(false) => {}
                Err(error) => return Err(error),
            }
            if is_stale {
                return copy.into_value();
            }
            if now.0 - began.0 >= self.max_wait_ms {
                break (copy, false, false);
            }
            key_value.sleep(POLL_INTERVAL_MS).await;
        };
        let at = key_value.now();
        let fetched = fetch().await;
        match &fetched {
            Ok(value) => {
                let fresh_ms = self.fresh_ms.unwrap_or_default();
                let jitter = i64::try_from(random % 1_000).unwrap_or_default() * fresh_ms / 6_000;
                write(key_value, self.key, &StoredCopy::new(at, at.plus(fresh_ms + jitter), Some(value))).await;
            }
            Err(StoreError::LedgerUnavailable(_) | StoreError::IssuerUnavailable(_)) if is_stale => {
                return copy.into_value();
            }
            Err(StoreError::LedgerUnavailable(error) | StoreError::IssuerUnavailable(error)) => {
                let is_issuers = matches!(fetched, Err(StoreError::IssuerUnavailable(_)));
                let error_until = key_value.now().plus(ERROR_MS);
                write(key_value, self.key, &StoredCopy { error: error.clone(), is_issuers, error_until, ..copy }).await;
            }
            Err(_) => {}
        }
        if has_lease {
            lease::release(redis, self.lease_key, &owner).await;
        }
        fetched
    }
}

/// Returns the copy under `key`, however old; `None` if there is none.
pub async fn last<K: KeyValue, T: DeserializeOwned>(key_value: &K, key: &str) -> Option<T> {
    read(key_value, key).await.value
}

/// Overwrites the copy under `key` with none.
pub async fn forget<K: KeyValue>(key_value: &K, key: &str) {
    write(key_value, key, &StoredCopy::<()>::new(Millis(0), Millis(0), None)).await;
}

async fn read<K: KeyValue, T: DeserializeOwned>(key_value: &K, key: &str) -> StoredCopy<T> {
    let copy = key_value.read_copy(key).await.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    copy.unwrap_or(StoredCopy::new(Millis(0), Millis(0), None))
}

async fn write<K: KeyValue, T: Serialize>(key_value: &K, key: &str, copy: &StoredCopy<T>) {
    if let Ok(bytes) = serde_json::to_vec(copy) {
        key_value.write_copy(key, &bytes).await;
    }
}

#[cfg(test)]
mod tests;
