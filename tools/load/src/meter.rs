//! Counts and times responses, per step of a sale.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

pub const BUCKET: Duration = Duration::from_millis(100);

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    SignIn,
    Ticket,
    Gate,
    Reserve,
    Status,
    Checkout,
    Pay,
    Cancel,
    Refund,
    Sweep,
    Admin,
}

impl Step {
    pub fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign in",
            Self::Ticket => "ticket",
            Self::Gate => "gate.json",
            Self::Reserve => "reserve",
            Self::Status => "order status",
            Self::Checkout => "checkout",
            Self::Pay => "pay",
            Self::Cancel => "cancel",
            Self::Refund => "refund",
            Self::Sweep => "sweep",
            Self::Admin => "admin",
        }
    }
}

pub struct Meter {
    origin: Instant,
    empty_histogram: Histogram<u64>,
    steps: Mutex<BTreeMap<Step, StepStats>>,
}

struct StepStats {
    latency: Histogram<u64>,
    first_due: Instant,
    last_response: Instant,
    responses: BTreeMap<String, u64>,
    timeline: BTreeMap<u64, Bucket>,
}

#[derive(Default)]
struct Bucket {
    responses: BTreeMap<String, u64>,
    micros: Vec<u32>,
}

#[derive(Debug, Clone, Serialize)]
pub struct StepSummary {
    pub step: Step,
    pub requests: u64,
    /// Requests per second, from the first due time to the last response.
    pub per_second: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Responses by label (`202`, `409 sold_out`, `timeout`).
    pub responses: BTreeMap<String, u64>,
    /// Responses by label, per bucket. The key is the bucket's index (100 ms each) since the start of the run.
    pub timeline: BTreeMap<u64, BTreeMap<String, u64>>,
    /// Latency per bucket, with the same keys.
    pub latencies: BTreeMap<u64, Latency>,
}

/// Latency of the responses of one bucket, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    pub p50_ms: f64,
    /// 99th percentile; with fewer than a hundred responses, the highest.
    pub p99_ms: f64,
}

impl Meter {
    /// An empty meter. The timeline starts now.
    pub fn new() -> Result<Self> {
        Ok(Self { origin: Instant::now(), empty_histogram: histogram()?, steps: Mutex::default() })
    }

    /// The start of the timeline.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Milliseconds since the start of the timeline.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records a response that has just arrived to a request that was due at `due`.
    pub fn record(&self, step: Step, due: Instant, label: &str) {
        self.record_at(Instant::now(), step, due, label);
    }

    fn record_at(&self, now: Instant, step: Step, due: Instant, label: &str) {
        let micros = u64::try_from((now - due).as_micros()).unwrap_or(u64::MAX);
        let bucket = (now - self.origin).as_millis() / BUCKET.as_millis();
        let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);

        let mut steps = self.lock();
        let stats = steps.entry(step).or_insert_with(|| StepStats::new(self.empty_histogram.clone(), due));
        stats.latency.saturating_record(micros.max(1));
        stats.first_due = stats.first_due.min(due);
        stats.last_response = stats.last_response.max(now);
        *stats.responses.entry(label.to_owned()).or_default() += 1;
        let bucket = stats.timeline.entry(bucket).or_default();
        *bucket.responses.entry(label.to_owned()).or_default() += 1;
        bucket.micros.push(u32::try_from(micros).unwrap_or(u32::MAX));
    }

    /// A summary of each step that sent a request.
    pub fn summaries(&self) -> Vec<StepSummary> {
        self.lock().iter().map(|(step, stats)| stats.summary(*step)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Step, StepStats>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepStats {
    fn new(latency: Histogram<u64>, first_due: Instant) -> Self {
        Self { latency, first_due, last_response: first_due, responses: BTreeMap::new(), timeline: BTreeMap::new() }
    }

    fn summary(&self, step: Step) -> StepSummary {
        let requests = self.latency.len();
        let seconds = (self.last_response - self.first_due).as_secs_f64().max(1e-6);
        StepSummary {
            step,
            requests,
            per_second: requests as f64 / seconds,
            p50_ms: micros_to_ms(self.latency.value_at_quantile(0.5)),
            p90_ms: micros_to_ms(self.latency.value_at_quantile(0.9)),
            p99_ms: micros_to_ms(self.latency.value_at_quantile(0.99)),
            max_ms: micros_to_ms(self.latency.max()),
            responses: self.responses.clone(),
            timeline: self.timeline.iter().map(|(at, bucket)| (*at, bucket.responses.clone())).collect(),
            latencies: self.timeline.iter().map(|(at, bucket)| (*at, bucket.latency())).collect(),
        }
    }
}

impl Bucket {
    fn latency(&self) -> Latency {
        let mut micros = self.micros.clone();
        micros.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (micros.len() * percent).div_ceil(100).max(1) - 1;
            micros.get(rank).map_or(0.0, |micros| micros_to_ms(u64::from(*micros)))
        };
        Latency { p50_ms: percentile(50), p99_ms: percentile(99) }
    }
}

/// A histogram of microseconds up to ten minutes, with three significant digits.
pub fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(600_000_000, 3)?)
}

/// Converts microseconds to milliseconds.
pub fn micros_to_ms(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_from_when_the_request_was_due() {
        let meter = Meter::new().unwrap();
        let now = Instant::now();
        let due = now.checked_sub(Duration::from_millis(500)).unwrap();
        meter.record_at(now, Step::Reserve, due, "202");
        meter.record_at(now, Step::Reserve, now, "409 sold_out");

        let rows = meter.summaries();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].requests, 2);
        assert!(rows[0].max_ms >= 500.0, "{rows:?}");
        assert!(rows[0].p50_ms < 100.0, "{rows:?}");
        assert_eq!(rows[0].responses["202"], 1);
        assert_eq!(rows[0].responses["409 sold_out"], 1);
        let latency = rows[0].latencies.values().next().unwrap();
        assert!(latency.p50_ms < 100.0 && latency.p99_ms >= 500.0, "{rows:?}");
    }

    #[test]
    fn percentiles_are_computed_per_bucket() {
        let hundred = Bucket { micros: (1..=100).rev().map(|ms| ms * 1000).collect(), ..Bucket::default() };
        assert_eq!(hundred.latency(), Latency { p50_ms: 50.0, p99_ms: 99.0 });
        let one = Bucket { micros: vec![7_000], ..Bucket::default() };
        assert_eq!(one.latency(), Latency { p50_ms: 7.0, p99_ms: 7.0 });
    }
}
