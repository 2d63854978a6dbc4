//! Counts and times responses, per step of a sale.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

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
    Robot,
    Status,
    Checkout,
    Pay,
    Cancel,
    Refund,
    Sweep,
    Admin,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

pub struct Meter {
    origin: Instant,
    steps: Mutex<BTreeMap<Step, Vec<Sample>>>,
}

struct Sample {
    due: Instant,
    answered_at: Instant,
    /// `202`, `409 sold_out`, `timeout`.
    label: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct StepSummary {
    pub step: Step,
    pub requests: usize,
    /// Requests per second, from the first due time to the last response.
    pub per_second: f64,
    #[serde(flatten)]
    pub all: Responses,
    /// The responses per bucket. The key is the bucket's index since the start of the run.
    pub timeline: BTreeMap<u64, Responses>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Responses {
    /// Number by label.
    pub responses: BTreeMap<String, u64>,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Meter {
    /// An empty meter. The timeline starts now.
    pub fn new() -> Self {
        Self { origin: Instant::now(), steps: Mutex::default() }
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
        let sample = Sample { due, answered_at: Instant::now(), label: label.to_owned() };
        self.lock().entry(step).or_default().push(sample);
    }

    /// A summary of each step that sent a request.
    pub fn summaries(&self) -> Result<Vec<StepSummary>> {
        self.lock().iter().map(|(step, samples)| self.summarize(*step, samples)).collect()
    }

    fn summarize(&self, step: Step, samples: &[Sample]) -> Result<StepSummary> {
        let first_due = samples.iter().map(|sample| sample.due).min();
        let last_response = samples.iter().map(|sample| sample.answered_at).max();
        let seconds = last_response.zip(first_due).map_or(0.0, |(last, first)| (last - first).as_secs_f64());
        let mut buckets: BTreeMap<u64, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            let bucket = (sample.answered_at - self.origin).as_millis() / BUCKET.as_millis();
            buckets.entry(u64::try_from(bucket)?).or_default().push(sample);
        }
        Ok(StepSummary {
            step,
            requests: samples.len(),
            per_second: samples.len() as f64 / seconds.max(1e-6),
            all: Responses::of(samples)?,
            timeline: buckets
                .into_iter()
                .map(|(at, samples)| Ok((at, Responses::of(samples)?)))
                .collect::<Result<_>>()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Step, Vec<Sample>>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepSummary {
    /// Headings of [`Self::cells`].
    pub const HEADINGS: [&str; 7] = ["step", "requests", "/s", "p50 ms", "p99 ms", "max ms", "responses"];

    /// The summary as text.
    pub fn cells(&self) -> [String; 7] {
        let Responses { responses, p50_ms, p99_ms, max_ms } = &self.all;
        [
            self.step.to_string(),
            self.requests.to_string(),
            format!("{:.0}", self.per_second),
            format!("{p50_ms:.1}"),
            format!("{p99_ms:.1}"),
            format!("{max_ms:.1}"),
            responses.iter().map(|(label, count)| format!("{label}: {count}")).collect::<Vec<_>>().join(", "),
        ]
    }
}

impl Responses {
    fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Result<Self> {
        let (mut latency, mut responses) = (histogram()?, BTreeMap::new());
        for sample in samples {
            latency.saturating_record(u64::try_from((sample.answered_at - sample.due).as_micros())?);
            *responses.entry(sample.label.clone()).or_default() += 1;
        }
        Ok(Self {
            responses,
            p50_ms: micros_to_ms(latency.value_at_quantile(0.5)),
            p99_ms: micros_to_ms(latency.value_at_quantile(0.99)),
            max_ms: micros_to_ms(latency.max()),
        })
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
        let meter = Meter::new();
        let now = Instant::now();
        meter.record(Step::Reserve, now.checked_sub(Duration::from_millis(500)).unwrap(), "202");
        meter.record(Step::Reserve, now, "409 sold_out");

        let rows = meter.summaries().unwrap();
        assert_eq!((rows.len(), rows[0].requests), (1, 2));
        for responses in rows[0].timeline.values().chain([&rows[0].all]) {
            assert!(responses.max_ms >= 500.0 && responses.p99_ms >= 500.0 && responses.p50_ms < 100.0, "{rows:?}");
            assert_eq!((responses.responses["202"], responses.responses["409 sold_out"]), (1, 1));
        }
    }
}
