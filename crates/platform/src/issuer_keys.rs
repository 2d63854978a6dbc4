//! Verifies tokens with the keys that an issuer publishes, cached in memory and in key-value (B1).
//!
//! All instances share a copy, which one request at a time fetches anew: after [`SHARED`]`.fresh_ms`, and when a token
//! names a key that the copy lacks, at most once in [`MIN_REFETCH_MS`]; requests of other instances do not wait for that,
//! and an instance looks for such a key at most once in [`PAUSE_MS`].
//! While the provider is unavailable, a copy is used for [`SHARED`]`.max_age_ms`; without one, no token is verified and
//! none is refused. A token that names an unknown key and is newer than the copy is unconfirmed.

use std::rc::Rc;

use domain::{
    jwt::{
        Claims, LEEWAY_SECONDS, TokenError,
        key_set::{KeySet, KeySetError, KeySetVerifier},
    },
    time::Millis,
};
use serde::{Deserialize, Serialize};
use stores::{
    http_client::{HttpClient, HttpRequest},
    ports::{KeyValue, Redis, StoreError},
    shared_value::SharedValue,
    ttl::is_fresh,
};

use crate::single_flight::{Flight, Joined};

/// How long an instance uses the keys in its memory before it reads the shared copy again, in milliseconds.
const MEMORY_MS: i64 = 30_000;

/// The age at which a copy is fetched again for a token that names an unknown key, in milliseconds.
const MIN_REFETCH_MS: i64 = 10_000;

/// How long an instance does not ask again after an error, and does not look again for an unknown key, in milliseconds.
const PAUSE_MS: i64 = 1_000;

/// How long the provider may take to answer, in milliseconds.
const TIMEOUT_MS: i64 = 2_000;

/// The copy: five minutes fresh, used for a day while the provider is unavailable, which is then asked once in ten
/// seconds.
const SHARED: SharedValue<'_> = SharedValue {
    key: "issuer-keys",
    lease_key: "stampede:issuer-keys",
    lease_ms: 10_000,
    fresh_ms: Some(300_000),
    max_age_ms: 86_400_000,
    max_wait_ms: TIMEOUT_MS + 500,
};

/// What an instance remembers of the keys.
#[derive(Default)]
pub struct Memory {
    keys: Option<Held>,
    /// The error of the last load, and when it happened.
    error: Option<(StoreError, Millis)>,
    /// When a request last looked for a key that the copy lacks.
    looked_at: Option<Millis>,
}

#[derive(Clone)]
struct Held {
    keys: Rc<KeySet>,
    fetched_at: Millis,
    read_at: Millis,
}

impl Memory {
    /// Returns the keys in memory, or the last error, while no request needs to load them again. With `lacks_key`, a
    /// token names a key that those in memory lack; clients can send any number of such tokens.
    fn get(&self, lacks_key: bool, is_loading: bool, now: Millis) -> Option<Result<Held, StoreError>> {
        let error = self.error.as_ref().filter(|(_, at)| is_fresh(*at, now, PAUSE_MS)).map(|(error, _)| error);
        let held = self.keys.as_ref().filter(|held| {
            if lacks_key {
                let has_looked = self.looked_at.is_some_and(|at| is_fresh(at, now, PAUSE_MS));
                return error.is_some() || has_looked || is_fresh(held.fetched_at, now, MIN_REFETCH_MS);
            }
            let may_be_stale = is_loading || error.is_some();
            is_fresh(held.read_at, now, MEMORY_MS) || may_be_stale && is_fresh(held.fetched_at, now, SHARED.max_age_ms)
        });
        held.map(|held| Ok(held.clone())).or_else(|| Some(Err(error?.clone())))
    }
}

#[derive(Serialize, Deserialize)]
struct Copy {
    /// The URL that it was fetched from: a copy of another one is not used.
    url: String,
    fetched_at: Millis,
    text: String,
}

/// The stores and the client that the keys are loaded with.
pub struct IssuerKeys<'a, R, K, H> {
    /// Holds the lease of the request that fetches.
    pub redis: &'a R,
    /// Holds the copy.
    pub key_value: &'a K,
    /// Calls the provider.
    pub http_client: &'a H,
    /// Where the provider publishes its keys (`jwks_uri`).
    pub url: &'a str,
    /// This instance's memory.
    pub memory: &'a Flight<Memory>,
}

impl<R: Redis, K: KeyValue, H: HttpClient> IssuerKeys<'_, R, K, H> {
    /// Returns the claims of a token, or why it is refused.
    ///
    /// # Errors
    /// [`StoreError::IssuerUnavailable`] if the keys are not known; that of Redis if there is no copy.
    pub async fn verify(
        &self,
        verifier: &KeySetVerifier,
        token: &str,
    ) -> Result<Result<Claims, TokenError>, StoreError> {
        let mut held = self.keys(false).await?;
        let mut result = verifier.verify(token, &held.keys);
        if matches!(result, Err(KeySetError::UnknownKey { .. }))
            && let Ok(newer) = self.keys(true).await
            && newer.fetched_at > held.fetched_at
        {
            held = newer;
            result = verifier.verify(token, &held.keys);
        }
        Ok(result.map_err(|error| match error {
            KeySetError::Token(error) => error,
            // The provider's clock may be behind this one.
            KeySetError::UnknownKey { issued_at }
                if issued_at + LEEWAY_SECONDS < held.fetched_at.0.unsigned_abs() / 1_000 =>
            {
                TokenError::Forged
            }
            KeySetError::UnknownKey { .. } => TokenError::Unconfirmed,
        }))
    }

    /// Returns [the keys in memory](Memory::get); else loads them, or waits for another request of the instance that does.
    async fn keys(&self, lacks_key: bool) -> Result<Held, StoreError> {
        let read = |memory: &mut Memory, is_loading| memory.get(lacks_key, is_loading, self.key_value.now());
        loop {
            let _guard = match self.memory.join(None, read).await {
                Joined::Use(result) => return result,
                Joined::Fetch(guard) => guard,
            };
            let loaded = self.load(if lacks_key { MIN_REFETCH_MS } else { i64::MAX }).await;
            let now = self.key_value.now();
            self.memory.with(|memory| {
                memory.looked_at = lacks_key.then_some(now).or(memory.looked_at);
                match loaded {
                    Ok(held) => (memory.keys, memory.error) = (Some(held), None),
                    Err(error) => memory.error = Some((error, now)),
                }
            });
        }
    }

    /// Loads the shared copy if it is fresh and was fetched within `max_age_ms`, or another instance is fetching; else
    /// fetches the keys.
    async fn load(&self, max_age_ms: i64) -> Result<Held, StoreError> {
        let now = self.key_value.now();
        let is_usable = |copy: &Copy| copy.url == self.url;
        // SharedValue refuses a copy of a clock that is ahead.
        let is_current = |copy: &Copy| now.0 - copy.fetched_at.0 <= max_age_ms;
        let copy = SHARED.get_current(self.redis, self.key_value, is_usable, is_current, || self.fetch()).await?;
        let keys = Rc::new(KeySet::parse(copy.text.as_bytes()).map_err(StoreError::Malformed)?);
        let read_at = self.key_value.now();
        Ok(Held { keys, fetched_at: copy.fetched_at.min(read_at), read_at })
    }

    /// Fetches the keys from the provider. An answer without a usable key counts as none.
    async fn fetch(&self) -> Result<Copy, StoreError> {
        let fetched_at = self.key_value.now();
        let unavailable = |reason: String| StoreError::IssuerUnavailable(reason);
        let request = HttpRequest {
            method: "GET",
            url: self.url.to_owned(),
            headers: vec![("accept", "application/jwk-set+json, application/json".to_owned())],
            body: String::new(),
            timeout_ms: TIMEOUT_MS,
        };
        let response = self.http_client.send(request).await.map_err(|error| unavailable(error.to_string()))?;
        if response.status != 200 {
            return Err(unavailable(format!("status {}", response.status)));
        }
        KeySet::parse(&response.body).map_err(unavailable)?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        Ok(Copy { url: self.url.to_owned(), fetched_at, text })
    }
}

#[cfg(test)]
mod tests;
