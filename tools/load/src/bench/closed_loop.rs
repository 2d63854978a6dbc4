//! The measuring loop: each connection sends its next request when the last answer has come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio::task::JoinSet;

use super::server::Server;
use super::supply::Supply;
use crate::meter;

/// What is sent and what must come back.
pub struct Work {
    /// The requests.
    pub supply: Supply,
    /// The only status that counts.
    pub expect: u16,
    /// When to stop, for an endless supply.
    pub limit: Option<Duration>,
    /// How many bodies to keep.
    pub keep: usize,
}

/// What one measurement found.
#[derive(Debug)]
pub struct Sample {
    /// Answers with the expected status.
    pub answers: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Latencies in microseconds.
    pub latency: Histogram<u64>,
    /// Everything else, by what it was, with how often.
    pub unexpected: BTreeMap<String, u64>,
    /// Bodies that were kept, by number of the request.
    pub kept: Vec<(usize, Bytes)>,
    /// Processor time of this process per time on the clock: 1.0 is a whole core.
    pub own_load: f64,
    /// When the first request was sent.
    pub began: Instant,
}

struct Shared {
    work: Work,
    deadline: Option<Instant>,
    sample: Sample,
}

impl Sample {
    /// Expected answers per second.
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Measures on `connections` connections, which are open before the clock starts.
pub async fn drive(server: &Server, connections: u16, work: Work) -> Result<Sample> {
    let mut senders = Vec::new();
    for _ in 0..connections {
        senders.push(server.connect().await?);
    }
    let began = Instant::now();
    let processor = processor_time()?;
    let shared = Arc::new(Mutex::new(Shared {
        deadline: work.limit.map(|limit| began + limit),
        work,
        sample: Sample {
            answers: 0,
            elapsed: Duration::ZERO,
            latency: meter::histogram()?,
            unexpected: BTreeMap::new(),
            kept: Vec::new(),
            own_load: 0.0,
            began,
        },
    }));
    let mut loops = JoinSet::new();
    for sender in senders {
        loops.spawn(one_connection(server.clone(), sender, shared.clone()));
    }
    while let Some(ended) = loops.join_next().await {
        ended.context("a connection's task broke")??;
    }
    let shared = Arc::into_inner(shared).context("a connection outlived the measurement")?;
    let mut sample = shared.into_inner().unwrap_or_else(PoisonError::into_inner).sample;
    sample.elapsed = began.elapsed();
    sample.own_load = (processor_time()? - processor).as_secs_f64() / sample.elapsed.as_secs_f64();
    Ok(sample)
}

async fn one_connection(
    server: Server,
    mut sender: SendRequest<Full<Bytes>>,
    shared: Arc<Mutex<Shared>>,
) -> Result<()> {
    while let Some((number, request)) = next(&shared) {
        if sender.ready().await.is_err() {
            // Servers may end a kept-alive connection between two requests.
            sender = server.connect().await?;
        }
        let sent = Instant::now();
        match exchange(&mut sender, request).await {
            Ok((status, body)) => lock(&shared).record(number, sent.elapsed(), status, body),
            Err(error) => lock(&shared).sample.unexpected_one(format!("no answer: {error}")),
        }
    }
    Ok(())
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: super::supply::Prepared,
) -> hyper::Result<(u16, Bytes)> {
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

fn next(shared: &Mutex<Shared>) -> Option<(usize, super::supply::Prepared)> {
    let mut shared = lock(shared);
    if shared.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return None;
    }
    shared.work.supply.take()
}

impl Shared {
    fn record(&mut self, number: usize, latency: Duration, status: u16, body: Bytes) {
        if status != self.work.expect {
            let text = String::from_utf8_lossy(&body);
            let text: String = text.chars().take(200).collect();
            return self.sample.unexpected_one(format!("{status} instead of {}: {text}", self.work.expect));
        }
        self.sample.answers += 1;
        self.sample.latency.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        if self.sample.kept.len() < self.work.keep {
            self.sample.kept.push((number, body));
        }
    }
}

impl Sample {
    fn unexpected_one(&mut self, what: String) {
        // Error texts carry request ids: a handful of them says enough.
        let what = if self.unexpected.len() < 5 { what } else { "and others".to_owned() };
        *self.unexpected.entry(what).or_default() += 1;
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("the system does not say how busy this process is")?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.try_into().unwrap_or_default()))
}
