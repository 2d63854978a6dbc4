//! Collects the measurements of all rounds and reduces them to a row for each route and floor.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{
    calls::Calls,
    kind::{Goal, Kind},
    spawned_app::CpuTimes,
    workload::Measurement,
};
use crate::{meter, statistics::Spread};

/// The measurements of one route or floor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub kind: Kind,
    /// Requests per second.
    pub per_second: Spread,
    /// To the floor.
    pub ratio: Option<Spread>,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub goal: Option<Goal>,
    /// Processor time per request of everything on this machine, the load generator and the kernel's network included,
    /// in µs.
    pub machine_us: Option<f64>,
    /// The same of the engine's process that serves HTTP, without the network.
    pub engine_us: Option<f64>,
    /// The same of Redis, with what the order writer asks of it.
    pub redis_us: Option<f64>,
    /// The same of the order writer's process, per order.
    pub writer_us: Option<f64>,
    /// CPU use of the load generator: 1.0 is one full core.
    pub own_load: f64,
    /// Calls out of the functions per request, those after the answer included.
    #[serde(default)]
    pub calls: Option<Calls>,
    /// `engine_us` at half load.
    #[serde(default)]
    pub half_load_us: Option<f64>,
    /// At half load, the percentage of responses that took [`HELD_BACK_MS`] longer than the median.
    #[serde(default)]
    pub held_back: Option<f64>,
}

/// By how much a response comes later if its second packet waits for the delayed acknowledgement of the first, in ms.
const HELD_BACK_MS: (u64, u64) = (38, 60);

/// The measurements of all rounds.
#[derive(Debug, Default)]
pub struct Results {
    series: BTreeMap<Kind, Series>,
    /// Unexpected responses, by description.
    pub unexpected: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct Series {
    rates: Vec<f64>,
    ratios: Vec<f64>,
    generator_cpu: Vec<f64>,
    machine_us: Vec<f64>,
    engine_us: Vec<f64>,
    redis_us: Vec<f64>,
    writer_us: Vec<f64>,
    latency: Option<Histogram<u64>>,
    at_half_load: Option<Histogram<u64>>,
    half_load_us: Vec<f64>,
    calls: Option<Calls>,
    /// Requests whose calls were counted.
    counted: u64,
}

impl Results {
    /// Adds a measurement, with the processor times before and after it.
    pub fn add(&mut self, kind: Kind, measurement: &Measurement, cpu: Option<(CpuTimes, CpuTimes)>) {
        let series = self.series.entry(kind).or_default();
        series.rates.push(measurement.per_second());
        series.generator_cpu.push(measurement.generator_cpu);
        merge(&mut series.latency, measurement);
        if let Some((before, after)) = cpu {
            let requests = measurement.succeeded.max(1) as f64;
            for (values, before, after) in [
                (&mut series.machine_us, before.machine, after.machine),
                (&mut series.engine_us, before.engine, after.engine),
                (&mut series.redis_us, before.redis, after.redis),
                (&mut series.writer_us, before.writer, after.writer),
            ] {
                values.push(after.saturating_sub(before).as_micros() as f64 / requests);
            }
        }
        self.add_unexpected(kind, measurement);
    }

    /// Adds a measurement at half load, with the engine's processor time of all its requests.
    pub fn add_at_half_load(&mut self, kind: Kind, measurement: &Measurement, engine: Option<Duration>) {
        let series = self.series.entry(kind).or_default();
        merge(&mut series.at_half_load, measurement);
        let requests = measurement.succeeded.max(1) as f64;
        series.half_load_us.extend(engine.map(|time| time.as_micros() as f64 / requests));
        self.add_unexpected(kind, measurement);
    }

    fn add_unexpected(&mut self, kind: Kind, measurement: &Measurement) {
        for (what, count) in &measurement.unexpected {
            *self.unexpected.entry(format!("{}: {what}", kind.name())).or_default() += count;
        }
    }

    /// Adds the calls that so many `requests` made between two readings.
    pub fn add_calls(&mut self, kind: Kind, before: Calls, after: Calls, requests: u64) {
        let series = self.series.entry(kind).or_default();
        series.calls = Some(series.calls.unwrap_or_default().plus(after, 1.0).plus(before, -1.0));
        series.counted += requests;
    }

    pub fn add_ratio(&mut self, kind: Kind, ratio: f64) {
        self.series.entry(kind).or_default().ratios.push(ratio);
    }

    /// The rows of measurements over so many `connections`.
    pub fn rows(&self, connections: u16, on_postgres: bool) -> Vec<Row> {
        let row = |(kind, series): (&Kind, &Series)| {
            let median = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
            let latency = series.latency.as_ref()?;
            Some(Row {
                kind: *kind,
                per_second: Spread::of(&series.rates)?,
                ratio: Spread::of(&series.ratios),
                p50_ms: meter::micros_to_ms(latency.value_at_quantile(0.5)),
                p99_ms: meter::micros_to_ms(latency.value_at_quantile(0.99)),
                goal: kind.goal(connections, on_postgres),
                machine_us: median(&series.machine_us),
                engine_us: median(&series.engine_us),
                redis_us: median(&series.redis_us),
                writer_us: median(&series.writer_us).filter(|_| *kind == Kind::Reserve),
                own_load: median(&series.generator_cpu)?,
                calls: series.calls.map(|calls| Calls::default().plus(calls, 1.0 / series.counted.max(1) as f64)),
                half_load_us: median(&series.half_load_us),
                held_back: series.at_half_load.as_ref().and_then(held_back),
            })
        };
        self.series.iter().filter_map(row).collect()
    }
}

fn merge(all: &mut Option<Histogram<u64>>, measurement: &Measurement) {
    match all {
        // Cannot fail: all histograms have the same bounds.
        Some(all) => all.add(&measurement.latency).unwrap_or_default(),
        empty => *empty = Some(measurement.latency.clone()),
    }
}

/// The percentage of responses that were held back; `None` without responses.
fn held_back(latency: &Histogram<u64>) -> Option<f64> {
    let later = |ms: u64| latency.value_at_quantile(0.5) + ms * 1_000;
    let count = latency.count_between(later(HELD_BACK_MS.0), later(HELD_BACK_MS.1));
    (!latency.is_empty()).then(|| 100.0 * count as f64 / latency.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cpu(engine: u64, redis: u64, writer: u64) -> CpuTimes {
        let [engine, redis, writer] = [engine, redis, writer].map(Duration::from_millis);
        CpuTimes { machine: engine + writer + redis, engine, writer, redis }
    }

    #[test]
    fn processor_time_is_per_request_and_the_writers_only_where_it_has_orders() {
        let measurement = Measurement {
            succeeded: 1_000,
            elapsed: Duration::from_secs(1),
            latency: meter::histogram().unwrap(),
            unexpected: BTreeMap::new(),
            bodies: Vec::new(),
            generator_cpu: 0.5,
        };
        let mut results = Results::default();
        for kind in [Kind::Reserve, Kind::Status] {
            results.add(kind, &measurement, Some((cpu(10, 0, 5), cpu(110, 20, 35))));
        }
        let rows = results.rows(64, false);
        assert_eq!((rows[0].engine_us, rows[0].redis_us, rows[0].writer_us), (Some(100.0), Some(20.0), Some(30.0)));
        assert_eq!((rows[1].engine_us, rows[1].writer_us), (Some(100.0), None));
    }

    #[test]
    fn a_response_is_held_back_if_it_comes_so_much_later_than_the_median() {
        let mut latency = meter::histogram().unwrap();
        assert_eq!(held_back(&latency), None);
        for (ms, count) in [(5, 95), (30, 2), (48, 2), (90, 1)] {
            latency.record_n(ms * 1_000, count).unwrap();
        }
        assert_eq!(held_back(&latency), Some(2.0));
    }
}
