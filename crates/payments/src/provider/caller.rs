//! Sends one request to a provider, and repeats it while there is no usable answer.

use std::pin::Pin;

use domain::time::Millis;
use stores::http_client::{HttpClient, HttpRequest, HttpResponse};

use super::ProviderError;

/// Retries and timeout of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Timeout of each attempt, in milliseconds.
    pub timeout_ms: i64,
}

impl RetryPolicy {
    /// For calls that a buyer waits for, which no background job repeats.
    pub const BUYER: Self = Self { max_attempts: 3, timeout_ms: 8_000 };

    /// For the sweeper, which repeats the call in a later run and has other work to do.
    pub const SWEEPER: Self = Self { max_attempts: 1, timeout_ms: 4_000 };
}

/// Wait before the second attempt, in milliseconds. It doubles with every attempt.
const INITIAL_BACKOFF_MS: i64 = 300;

/// Longest wait between two attempts, in milliseconds. If the provider asks for a longer one, the call fails and is
/// repeated later.
const MAX_WAIT_MS: i64 = 2_000;

/// Sends the requests of a provider.
#[derive(Clone)]
pub struct Caller<C> {
    /// The HTTP client.
    pub http_client: C,
    /// Retries and timeout.
    pub retry: RetryPolicy,
    /// Returns the current time.
    pub clock: fn() -> Millis,
    /// Sleeps for a number of milliseconds.
    pub sleep: fn(i64) -> Pin<Box<dyn Future<Output = ()>>>,
}

impl<C: HttpClient> Caller<C> {
    /// Sends a request to `provider`, and repeats it with back-off after a timeout and after an answer that
    /// `should_retry`.
    ///
    /// # Errors
    /// [`ProviderError`] if the last attempt got no other answer: the outcome is unknown.
    pub async fn send(
        &self,
        provider: &str,
        request: &HttpRequest,
        should_retry: fn(&HttpResponse) -> bool,
    ) -> Result<HttpResponse, ProviderError> {
        let HttpRequest { method, url, .. } = request;
        let mut backoff_ms = INITIAL_BACKOFF_MS;
        for attempt in 1.. {
            let error = match self.http_client.send(request.clone()).await {
                Ok(response) if !should_retry(&response) => return Ok(response),
                Ok(response) => ProviderError {
                    retry_after_ms: response.retry_after_ms((self.clock)()),
                    ..ProviderError::new(format!("{provider} answered {} to {method} {url}", response.status))
                },
                Err(error) => ProviderError::new(format!("{method} {url}: {error}")),
            };
            let wait_ms = error.retry_after_ms.unwrap_or(backoff_ms).max(backoff_ms);
            if attempt == self.retry.max_attempts || wait_ms > MAX_WAIT_MS {
                return Err(error);
            }
            (self.sleep)(wait_ms).await;
            backoff_ms *= 2;
        }
        Err(ProviderError::new(format!("{provider} was not asked")))
    }
}
