//! The running app behind its HTTP contract: every request is metered, and repeated where that is safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use http::header::HeaderValue;

use crate::http::{Call, Client, RequestError, Response, bearer};
use crate::meter::{Meter, Step};
use crate::target::Target;

/// Pauses between tries when the app gives no `Retry-After`: doubled from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// Sockets of operator, cron and gate.
const OPERATOR_CONNECTIONS: usize = 8;

/// Sockets of robots: nobody queues behind them here.
const ROBOT_CONNECTIONS: usize = 64;

/// The app under load.
#[derive(Clone)]
pub struct App {
    visitor_client: Arc<Client>,
    order_client: Arc<Client>,
    operator_client: Arc<Client>,
    robot_client: Arc<Client>,
    /// What was measured.
    pub meter: Arc<Meter>,
    admin_authorization: HeaderValue,
    cron_authorization: Option<HeaderValue>,
}

/// A request that found no answer that can be used before its deadline.
#[derive(Debug, thiserror::Error)]
#[error("gave up after {tries} tries, the last: {last}")]
pub struct DeadlineExceeded {
    tries: u32,
    last: String,
}

impl App {
    /// An app that has not been asked anything yet. The crowd shares `connections` sockets. Winners have a fourth as
    /// many beside them, and operator, cron and gate a few: a queue for sockets is this program's, not the app's, and
    /// nobody shall stand in it behind people who come for something else. `timeout` limits each request.
    pub fn new(target: &Target, connections: u16, timeout: Duration) -> Result<Self> {
        Ok(Self {
            visitor_client: Arc::new(Client::new(&target.url, connections.into(), timeout)?),
            order_client: Arc::new(Client::new(
                &target.url,
                usize::from(connections / 4).max(OPERATOR_CONNECTIONS),
                timeout,
            )?),
            operator_client: Arc::new(Client::new(&target.url, OPERATOR_CONNECTIONS, timeout)?),
            robot_client: Arc::new(Client::new(&target.url, ROBOT_CONNECTIONS, timeout)?),
            meter: Arc::new(Meter::new()?),
            admin_authorization: bearer(&target.admin_token)?,
            cron_authorization: target.cron_token.as_deref().map(bearer).transpose()?,
        })
    }

    /// Sends once; latency counts from `due`.
    pub async fn send(&self, step: Step, due: Instant, call: &Call) -> Result<Response, RequestError> {
        let client = match step {
            Step::SignIn | Step::Ticket | Step::Reserve => &self.visitor_client,
            Step::Status | Step::Checkout | Step::Pay | Step::Cancel | Step::Refund => &self.order_client,
            Step::Gate | Step::Admin | Step::Sweep => &self.operator_client,
            Step::Robot => &self.robot_client,
        };
        let outcome = client.send(call).await;
        match &outcome {
            Ok(response) => self.meter.record(step, due, &response.label()),
            Err(error) => self.meter.record(step, due, &error.to_string()),
        }
        outcome
    }

    /// Sends an idempotent call until the app gives an answer that is not "later", or `deadline`.
    /// The app may be killed and started again meanwhile.
    pub async fn send_with_retry(
        &self,
        step: Step,
        call: &Call,
        deadline: Instant,
    ) -> Result<Response, DeadlineExceeded> {
        let mut backoff = Backoff::default();
        loop {
            let outcome = self.send(step, Instant::now(), call).await;
            let (last, delay) = match outcome {
                Ok(response) if !is_retryable(response.status) => return Ok(response),
                Ok(response) => (response.label(), backoff.delay_after(&response)),
                Err(error) => (error.to_string(), backoff.next_delay()),
            };
            if Instant::now() + delay >= deadline {
                return Err(DeadlineExceeded { tries: backoff.tries, last });
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// An admin route, repeated for up to `patience`.
    pub async fn send_admin(&self, call: Call, timeout: Duration) -> Result<Response, DeadlineExceeded> {
        self.send_with_retry(Step::Admin, &call.with_authorization(&self.admin_authorization), Instant::now() + timeout)
            .await
    }

    /// Calls the sweeper once, as cron would; `false` without a cron token.
    pub async fn sweep(&self) -> bool {
        // Whatever it says: the next call of the cron job is a few seconds away.
        let _ = self.sweep_report().await;
        self.cron_authorization.is_some()
    }

    /// Calls the sweeper once, and answers its report.
    pub async fn sweep_report(&self) -> Option<serde_json::Value> {
        let call = Call::post("/api/tasks/sweep", &serde_json::Value::Null)
            .with_authorization(self.cron_authorization.as_ref()?);
        let response = self.send(Step::Sweep, Instant::now(), &call).await.ok()?;
        serde_json::from_slice(&response.body).ok()
    }
}

/// Whether an answer means "try again": limits, overload, restarts, and a proxy without a backend.
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 429 | 500 | 502..=504)
}

/// Growing pauses with jitter; a `Retry-After` wins.
#[derive(Debug, Default)]
pub struct Backoff {
    /// How often it was asked.
    pub tries: u32,
}

impl Backoff {
    /// The pause before the next try.
    pub fn next_delay(&mut self) -> Duration {
        let base = BACKOFF.0.saturating_mul(1 << self.tries.min(8)).min(BACKOFF.1);
        self.tries += 1;
        base.mul_f64(0.5 + fastrand::f64())
    }

    /// The pause that `answer` asks for, spread by a quarter second so that the crowd does not return as one.
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
    fn pauses_grow_to_a_bound() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..40).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] <= Duration::from_millis(300), "{delays:?}");
        assert!(delays.iter().all(|delay| *delay <= BACKOFF.1.mul_f64(1.5)), "{delays:?}");
        assert!(delays[39] >= BACKOFF.1.mul_f64(0.5), "{delays:?}");
    }

    #[test]
    fn retry_after_is_never_undercut() {
        let response =
            Response { status: 503, retry_after: Some(Duration::from_secs(2)), etag: None, body: Bytes::new() };
        let delay = Backoff::default().delay_after(&response);
        assert!(delay >= Duration::from_secs(2) && delay < Duration::from_millis(2250), "{delay:?}");
    }
}
