//! The running app behind its HTTP contract: every request is metered, and repeated where that is safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use http::header::HeaderValue;

use crate::http::{Answer, Call, Client, NoAnswer, bearer};
use crate::meter::{Meter, Step};
use crate::target::Target;

/// Pauses between tries when the app gives no `Retry-After`: doubled from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// Sockets of operator, cron and gate.
const DESK_CONNECTIONS: usize = 8;

/// Sockets of robots: nobody queues behind them here.
const ROBOT_CONNECTIONS: usize = 64;

/// The app under load.
#[derive(Clone)]
pub struct App {
    crowd: Arc<Client>,
    winners: Arc<Client>,
    desk: Arc<Client>,
    robots: Arc<Client>,
    /// What was measured.
    pub meter: Arc<Meter>,
    admin: HeaderValue,
    cron: Option<HeaderValue>,
}

/// A request that found no answer that can be used before its deadline.
#[derive(Debug, thiserror::Error)]
#[error("gave up after {tries} tries, the last: {last}")]
pub struct GaveUp {
    tries: u32,
    last: String,
}

impl App {
    /// An app that has not been asked anything yet. The crowd shares `connections` sockets. Winners have a fourth as
    /// many beside them, and operator, cron and gate a few: a queue for sockets is this program's, not the app's, and
    /// nobody shall stand in it behind people who come for something else. `timeout` limits each request.
    pub fn new(target: &Target, connections: u16, timeout: Duration) -> Result<Self> {
        Ok(Self {
            crowd: Arc::new(Client::new(&target.url, connections.into(), timeout)?),
            winners: Arc::new(Client::new(&target.url, usize::from(connections / 4).max(DESK_CONNECTIONS), timeout)?),
            desk: Arc::new(Client::new(&target.url, DESK_CONNECTIONS, timeout)?),
            robots: Arc::new(Client::new(&target.url, ROBOT_CONNECTIONS, timeout)?),
            meter: Arc::new(Meter::new()?),
            admin: bearer(&target.admin_token)?,
            cron: target.cron_token.as_deref().map(bearer).transpose()?,
        })
    }

    /// Sends once; latency counts from `due`.
    pub async fn once(&self, step: Step, due: Instant, call: &Call) -> Result<Answer, NoAnswer> {
        let client = match step {
            Step::SignIn | Step::Ticket | Step::Reserve => &self.crowd,
            Step::Status | Step::Checkout | Step::Pay | Step::Cancel | Step::Refund => &self.winners,
            Step::Gate | Step::Admin | Step::Sweep => &self.desk,
            Step::Robot => &self.robots,
        };
        let outcome = client.send(call).await;
        match &outcome {
            Ok(answer) => self.meter.record(step, due, &answer.label()),
            Err(none) => self.meter.record(step, due, &none.to_string()),
        }
        outcome
    }

    /// Sends an idempotent call until the app gives an answer that is not "later", or `deadline`.
    /// The app may be killed and started again meanwhile.
    pub async fn insist(&self, step: Step, call: &Call, deadline: Instant) -> Result<Answer, GaveUp> {
        let mut backoff = Backoff::default();
        loop {
            let outcome = self.once(step, Instant::now(), call).await;
            let (last, wait) = match outcome {
                Ok(answer) if !is_later(answer.status) => return Ok(answer),
                Ok(answer) => (answer.label(), backoff.after(&answer)),
                Err(none) => (none.to_string(), backoff.pause()),
            };
            if Instant::now() + wait >= deadline {
                return Err(GaveUp { tries: backoff.tries, last });
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// An admin route, repeated for up to `patience`.
    pub async fn admin(&self, call: Call, patience: Duration) -> Result<Answer, GaveUp> {
        self.insist(Step::Admin, &call.with(&self.admin), Instant::now() + patience).await
    }

    /// Calls the sweeper once, as cron would; `false` without a cron token.
    pub async fn sweep(&self) -> bool {
        // Whatever it says: the next call of the cron job is a few seconds away.
        let _ = self.sweep_report().await;
        self.cron.is_some()
    }

    /// Calls the sweeper once, and answers its report.
    pub async fn sweep_report(&self) -> Option<serde_json::Value> {
        let call = Call::post("/api/tasks/sweep", &serde_json::Value::Null).with(self.cron.as_ref()?);
        let answer = self.once(Step::Sweep, Instant::now(), &call).await.ok()?;
        serde_json::from_slice(&answer.body).ok()
    }
}

/// Whether an answer means "try again": limits, overload, restarts, and a proxy without a backend.
pub fn is_later(status: u16) -> bool {
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
    pub fn pause(&mut self) -> Duration {
        let base = BACKOFF.0.saturating_mul(1 << self.tries.min(8)).min(BACKOFF.1);
        self.tries += 1;
        base.mul_f64(0.5 + fastrand::f64())
    }

    /// The pause that `answer` asks for, spread by a quarter second so that the crowd does not return as one.
    pub fn after(&mut self, answer: &Answer) -> Duration {
        match answer.retry_after {
            Some(wait) => {
                self.tries += 1;
                wait + Duration::from_millis(fastrand::u64(0..250))
            }
            None => self.pause(),
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
        let pauses: Vec<_> = (0..40).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= Duration::from_millis(300), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= BACKOFF.1.mul_f64(1.5)), "{pauses:?}");
        assert!(pauses[39] >= BACKOFF.1.mul_f64(0.5), "{pauses:?}");
    }

    #[test]
    fn retry_after_is_never_undercut() {
        let answer = Answer { status: 503, retry_after: Some(Duration::from_secs(2)), etag: None, body: Bytes::new() };
        let wait = Backoff::default().after(&answer);
        assert!(wait >= Duration::from_secs(2) && wait < Duration::from_millis(2250), "{wait:?}");
    }
}
