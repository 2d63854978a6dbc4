//! Sends requests over a fixed number of connections, each its next one after the last response, or at its time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval_at},
};

use super::server::{PreparedRequest, Server};
use crate::meter;

/// Bodies to keep of requests that repeat.
const KEPT_BODIES: usize = 100;

/// The requests of one measurement and the response that they must get. A clone sends what the first one leaves.
#[derive(Clone)]
pub struct Workload {
    /// Each with its index.
    requests: Arc<Mutex<dyn Iterator<Item = (usize, PreparedRequest)> + Send>>,
    expected_status: u16,
    /// When to stop, if there are requests left.
    pub time_limit: Option<Duration>,
    /// Requests, at most.
    pub max_requests: usize,
    /// From one request of a connection to its next, at least.
    pub interval: Duration,
    keep_bodies: usize,
}

impl Workload {
    /// Sends each request once.
    pub fn once(requests: Vec<PreparedRequest>, expected_status: u16) -> Self {
        let keep_bodies = requests.len();
        Self::new(requests.into_iter().enumerate(), expected_status, keep_bodies)
    }

    /// Repeats the requests for `duration`.
    pub fn repeating(requests: Vec<PreparedRequest>, expected_status: u16, duration: Duration) -> Self {
        let requests = (0..requests.len()).cycle().map(move |at| (at, requests[at].clone()));
        Self { time_limit: Some(duration), ..Self::new(requests, expected_status, KEPT_BODIES) }
    }

    fn new(
        requests: impl Iterator<Item = (usize, PreparedRequest)> + Send + 'static,
        expected_status: u16,
        keep_bodies: usize,
    ) -> Self {
        Self {
            requests: Arc::new(Mutex::new(requests)),
            expected_status,
            time_limit: None,
            max_requests: usize::MAX,
            interval: Duration::ZERO,
            keep_bodies,
        }
    }
}

#[derive(Debug)]
pub struct Measurement {
    /// Responses with the expected status.
    pub succeeded: u64,
    /// Time from the first request to the last response.
    pub elapsed: Duration,
    /// Latencies in microseconds.
    pub latency: Histogram<u64>,
    /// All other responses and errors, with their number, by description.
    pub unexpected: BTreeMap<String, u64>,
    /// The bodies that were kept, each with the index of its request.
    pub bodies: Vec<(usize, Bytes)>,
    /// CPU time of this process per elapsed time: 1.0 is one full core.
    pub generator_cpu: f64,
}

struct Shared {
    workload: Workload,
    deadline: Option<Instant>,
    measurement: Measurement,
}

impl Measurement {
    /// Expected responses per second.
    pub fn per_second(&self) -> f64 {
        self.succeeded as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Sends the requests over `connections` connections, all of which are open before the clock starts.
pub async fn run_workload(server: &Server, connections: u16, workload: Workload) -> Result<Measurement> {
    let mut senders = Vec::new();
    for _ in 0..connections {
        senders.push(server.connect().await?);
    }
    let started_at = Instant::now();
    let cpu_before = cpu_time()?;
    let interval = workload.interval;
    let shared = Arc::new(Mutex::new(Shared {
        deadline: workload.time_limit.map(|limit| started_at + limit),
        workload,
        measurement: Measurement {
            succeeded: 0,
            elapsed: Duration::ZERO,
            latency: meter::histogram()?,
            unexpected: BTreeMap::new(),
            bodies: Vec::new(),
            generator_cpu: 0.0,
        },
    }));
    let mut tasks = JoinSet::new();
    for (at, sender) in senders.into_iter().enumerate() {
        let first = started_at + interval.mul_f64(at as f64 / f64::from(connections));
        tasks.spawn(run_connection(server.clone(), sender, shared.clone(), (first, interval)));
    }
    while let Some(result) = tasks.join_next().await {
        result.context("a connection's task broke")??;
    }
    let shared = Arc::into_inner(shared).context("a connection outlived the measurement")?;
    let mut measurement = shared.into_inner().unwrap_or_else(PoisonError::into_inner).measurement;
    measurement.elapsed = started_at.elapsed();
    measurement.generator_cpu = (cpu_time()? - cpu_before).as_secs_f64() / measurement.elapsed.as_secs_f64();
    Ok(measurement)
}

async fn run_connection(
    server: Server,
    mut sender: SendRequest<Full<Bytes>>,
    shared: Arc<Mutex<Shared>>,
    (first, interval): (Instant, Duration),
) -> Result<()> {
    let mut ticks = interval_at(first.into(), interval.max(Duration::from_nanos(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if !interval.is_zero() {
            ticks.tick().await;
        }
        let Some((number, request)) = next_request(&shared) else { break };
        if sender.ready().await.is_err() {
            // A server may close a kept-alive connection between two requests.
            sender = server.connect().await?;
        }
        let sent = Instant::now();
        match exchange(&mut sender, request).await {
            Ok((status, body)) => lock(&shared).record(number, sent.elapsed(), status, body),
            Err(error) => lock(&shared).measurement.count_unexpected(format!("no answer: {error}")),
        }
    }
    Ok(())
}

async fn exchange(sender: &mut SendRequest<Full<Bytes>>, request: PreparedRequest) -> hyper::Result<(u16, Bytes)> {
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

fn next_request(shared: &Mutex<Shared>) -> Option<(usize, PreparedRequest)> {
    let mut shared = lock(shared);
    if shared.workload.max_requests == 0 || shared.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return None;
    }
    shared.workload.max_requests -= 1;
    lock(&*shared.workload.requests).next()
}

impl Shared {
    fn record(&mut self, number: usize, latency: Duration, status: u16, body: Bytes) {
        if status != self.workload.expected_status {
            let text = String::from_utf8_lossy(&body);
            let text: String = text.chars().take(200).collect();
            return self
                .measurement
                .count_unexpected(format!("{status} instead of {}: {text}", self.workload.expected_status));
        }
        self.measurement.succeeded += 1;
        self.measurement.latency.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        if self.measurement.bodies.len() < self.workload.keep_bodies {
            self.measurement.bodies.push((number, body));
        }
    }
}

impl Measurement {
    fn count_unexpected(&mut self, what: String) {
        // Error texts contain request ids, so each is different; the first five are enough.
        let what = if self.unexpected.len() < 5 { what } else { "and others".to_owned() };
        *self.unexpected.entry(what).or_default() += 1;
    }
}

fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cpu_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("the system does not say how busy this process is")?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.try_into().unwrap_or_default()))
}
