//! Verifies tokens with the keys that an issuer publishes, cached in memory and in key-value (B1).
//!
//! All instances share a copy, which one request at a time fetches anew: after [`SHARED`]`.fresh_ms`, and when a token
//! names a key that the copy lacks, at most once in [`MIN_REFETCH_MS`]; requests of other instances do not wait for that,
//! and an instance looks for such a key at most once in [`PAUSE_MS`].
//! While the provider is unavailable, a copy is used for [`SHARED`]`.max_age_ms`; without one, no token is verified and
//! none is refused. A token that names an unknown key and is newer than the copy is unconfirmed.

use std::{cell::RefCell, rc::Rc};

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

/// Interval at which a request looks whether another request of its instance has loaded the keys, in milliseconds.
const POLL_INTERVAL_MS: i64 = 25;

/// What an instance remembers of the keys.
#[derive(Default)]
pub struct Memory {
    keys: Option<Held>,
    /// The error of the last load, and when it happened.
    error: Option<(StoreError, Millis)>,
    /// Whether a request loads the keys now. Other requests use those in memory, or wait.
    is_loading: bool,
    /// When a request last looked for a key that the copy lacks.
    looked_at: Option<Millis>,
}

#[derive(Clone)]
struct Held {
    keys: Rc<KeySet>,
    fetched_at: Millis,
    read_at: Millis,
}

/// The shared copy.
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
    pub memory: &'a RefCell<Memory>,
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
        let mut held = self.current().await?;
        let mut result = verifier.verify(token, &held.keys);
        if matches!(result, Err(KeySetError::UnknownKey { .. }))
            && !is_fresh(held.fetched_at, self.key_value.now(), MIN_REFETCH_MS)
            && self.may_look()
        {
            held = self.load(MIN_REFETCH_MS).await.unwrap_or(held);
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

    /// Returns whether a request looks for a key that the copy lacks: it waits for another one of the instance that does,
    /// or the last one began a while ago. Clients can send any number of such tokens.
    fn may_look(&self) -> bool {
        let now = self.key_value.now();
        let mut memory = self.memory.borrow_mut();
        let may = memory.is_loading || !memory.looked_at.is_some_and(|at| is_fresh(at, now, PAUSE_MS));
        if may {
            memory.looked_at = Some(now);
        }
        may
    }

    /// The keys in memory, or those of the shared copy.
    async fn current(&self) -> Result<Held, StoreError> {
        let now = self.key_value.now();
        let (held, is_loading) = {
            let memory = self.memory.borrow();
            (memory.keys.clone(), memory.is_loading)
        };
        match held {
            Some(held) if is_fresh(held.read_at, now, MEMORY_MS) => Ok(held),
            Some(held) if is_fresh(held.fetched_at, now, SHARED.max_age_ms) => {
                if is_loading {
                    Ok(held)
                } else {
                    Ok(self.load(i64::MAX).await.unwrap_or(held))
                }
            }
            _ => self.load(i64::MAX).await,
        }
    }

    /// Loads the shared copy if it is fresh and was fetched within `max_age_ms`, or another instance is fetching; else
    /// fetches the keys. Concurrent requests of the instance share one load.
    async fn load(&self, max_age_ms: i64) -> Result<Held, StoreError> {
        let began = self.key_value.now();
        while self.memory.borrow().is_loading {
            self.key_value.sleep(POLL_INTERVAL_MS).await;
        }
        let now = self.key_value.now();
        {
            let mut memory = self.memory.borrow_mut();
            if let Some((error, at)) = &memory.error
                && is_fresh(*at, now, PAUSE_MS)
            {
                return Err(error.clone());
            }
            if let Some(held) = memory.keys.as_ref().filter(|held| held.read_at > began) {
                return Ok(held.clone());
            }
            memory.is_loading = true;
        }
        let _loading = Loading(self.memory);
        let is_usable = |copy: &Copy| copy.url == self.url;
        // SharedValue refuses a copy of a clock that is ahead.
        let is_current = |copy: &Copy| now.0 - copy.fetched_at.0 <= max_age_ms;
        let loaded = SHARED.get_current(self.redis, self.key_value, is_usable, is_current, || self.fetch());
        let loaded = loaded.await.and_then(|copy| {
            let keys = Rc::new(KeySet::parse(copy.text.as_bytes()).map_err(StoreError::Malformed)?);
            let read_at = self.key_value.now();
            Ok(Held { keys, fetched_at: copy.fetched_at.min(read_at), read_at })
        });
        let mut memory = self.memory.borrow_mut();
        match &loaded {
            Ok(held) => (memory.keys, memory.error) = (Some(held.clone()), None),
            Err(error) => memory.error = Some((error.clone(), self.key_value.now())),
        }
        loaded
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

/// Ends a load, also one whose client has disconnected.
struct Loading<'a>(&'a RefCell<Memory>);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().is_loading = false;
    }
}

#[cfg(test)]
mod tests;
