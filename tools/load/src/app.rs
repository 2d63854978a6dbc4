//! Sends metered requests to the app under test and retries those that are safe to repeat.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use http::header::HeaderValue;
use serde::de::DeserializeOwned;

use crate::{
    http::{Call, Client, RequestError, Response, bearer},
    meter::{Meter, Step},
    target::Target,
};

/// How long an admin request is retried, for instance while the app restarts.
pub const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Shortest and longest delay between two tries without `Retry-After`; the delay doubles with each try.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// Fewest connections of the order client, and all connections of the operator client.
const OPERATOR_CONNECTIONS: usize = 8;

#[derive(Clone)]
pub struct App {
    visitor_client: Arc<Client>,
    order_client: Arc<Client>,
    operator_client: Arc<Client>,
    /// Latencies and responses of all requests so far.
    pub meter: Arc<Meter>,
    admin_authorization: HeaderValue,
    cron_authorization: Option<HeaderValue>,
}

impl App {
    /// Creates the clients; sends nothing yet.
    ///
    /// Visitors (sign-in, ticket, reservation) share `connections` connections. Requests about orders have a quarter as
    /// many of their own; operator, cron and gate requests have a few. Separate pools, because waiting for a free
    /// connection is a delay of this program, not of the app. `timeout` limits each request.
    pub fn new(target: &Target, connections: u16, timeout: Duration) -> Result<Self> {
        Ok(Self {
            visitor_client: Arc::new(Client::new(&target.url, connections.into(), timeout)?),
            order_client: Arc::new(Client::new(
                &target.url,
                usize::from(connections / 4).max(OPERATOR_CONNECTIONS),
                timeout,
            )?),
            operator_client: Arc::new(Client::new(&target.url, OPERATOR_CONNECTIONS, timeout)?),
            meter: Arc::new(Meter::new()),
            admin_authorization: bearer(&target.admin_token)?,
            cron_authorization: target.cron_token.as_deref().map(bearer).transpose()?,
        })
    }

    /// Sends the request once. Latency counts from `due`.
    pub async fn send(&self, step: Step, due: Instant, call: &Call) -> Result<Response, RequestError> {
        let client = match step {
            Step::SignIn | Step::Ticket | Step::Reserve | Step::Robot => &self.visitor_client,
            Step::Status | Step::Checkout | Step::Pay | Step::Cancel | Step::Refund => &self.order_client,
            Step::Gate | Step::Admin | Step::Sweep => &self.operator_client,
        };
        let outcome = client.send(call).await;
        match &outcome {
            Ok(response) => self.meter.record(step, due, &response.label()),
            Err(error) => self.meter.record(step, due, &error.to_string()),
        }
        outcome
    }

    /// Sends an idempotent request until a response is not retryable or `deadline` passes.
    /// The app may crash and restart in between.
    pub async fn send_with_retry(&self, step: Step, call: &Call, deadline: Instant) -> Result<Response> {
        let mut backoff = Backoff::default();
        loop {
            let outcome = self.send(step, Instant::now(), call).await;
            let (last, delay) = match outcome {
                Ok(response) if !is_retryable(response.status) => return Ok(response),
                Ok(response) => (response.label(), backoff.delay_after(&response)),
                Err(error) => (error.to_string(), backoff.next_delay()),
            };
            if Instant::now() + delay >= deadline {
                bail!("gave up after {} tries, the last: {last}", backoff.tries);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Sends a request to an admin route and retries it for up to `timeout`.
    async fn send_admin(&self, call: Call, timeout: Duration) -> Result<Response> {
        self.send_with_retry(Step::Admin, &call.with_authorization(&self.admin_authorization), Instant::now() + timeout)
            .await
    }

    /// Sends a request to an admin route that must succeed, and retries it while the app restarts. `what` names it.
    pub async fn admin(&self, call: Call, what: &str) -> Result<Response> {
        self.send_admin(call, ADMIN_TIMEOUT).await?.error_for_status(what)
    }

    /// Reads a route of the admin API, with retries for up to `timeout`; `None` without a readable response.
    pub async fn admin_get<T: DeserializeOwned>(&self, path: String, timeout: Duration) -> Option<T> {
        self.send_admin(Call::get(path), timeout)
            .await
            .ok()?
            .error_for_status("reading the admin API")
            .ok()?
            .parse()
            .ok()
    }

    /// Calls the sweeper once, as cron does, and returns its report; `None` without a cron token or a readable response.
    pub async fn sweep_report(&self) -> Option<serde_json::Value> {
        let call = Call::post("/api/tasks/sweep", &serde_json::Value::Null)
            .with_authorization(self.cron_authorization.as_ref()?);
        let response = self.send(Step::Sweep, Instant::now(), &call).await.ok()?;
        serde_json::from_slice(&response.body).ok()
    }
}

/// Whether the response means "try again": rate limit, overload, restart, or a proxy without a backend.
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 429 | 500 | 502..=504)
}

/// Exponential backoff with jitter. A `Retry-After` header takes precedence.
#[derive(Debug, Default)]
pub struct Backoff {
    pub tries: u32,
}

impl Backoff {
    pub fn next_delay(&mut self) -> Duration {
        let base = BACKOFF.0.saturating_mul(1 << self.tries.min(8)).min(BACKOFF.1);
        self.tries += 1;
        base.mul_f64(0.5 + fastrand::f64())
    }

    /// Delay that `response` asks for, plus up to 250 ms so that the buyers do not all return at once.
    pub fn delay_after(&mut self, response: &Response) -> Duration {
        match response.retry_after {
            Some(delay) => {
                self.tries += 1;
                delay + Duration::from_millis(fastrand::u64(0..250))
            }
            None => self.next_delay(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn delays_grow_to_the_maximum() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..40).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] <= Duration::from_millis(300), "{delays:?}");
        assert!(delays.iter().all(|delay| *delay <= BACKOFF.1.mul_f64(1.5)), "{delays:?}");
        assert!(delays[39] >= BACKOFF.1.mul_f64(0.5), "{delays:?}");
    }

    #[test]
    fn the_delay_is_at_least_retry_after() {
        let response = Response {
            sent_at: Instant::now(),
            status: 503,
            retry_after: Some(Duration::from_secs(2)),
            etag: None,
            body: Bytes::new(),
        };
        let delay = Backoff::default().delay_after(&response);
        assert!(delay >= Duration::from_secs(2) && delay < Duration::from_millis(2250), "{delay:?}");
    }
}
