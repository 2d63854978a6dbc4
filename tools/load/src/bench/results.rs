//! Collects the measurements of all rounds and reduces them to a table.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::drain::Drain;
use super::kind::Kind;
use super::report::{Row, Table};
use super::spawned_app::CpuTimes;
use super::workload::Measurement;
use crate::meter;
use crate::statistics::{median, range};

/// The measurements at one number of connections.
#[derive(Debug, Default)]
pub struct Results {
    series: BTreeMap<Kind, Series>,
    /// The order writer during the reservations, one entry per round.
    pub drains: Vec<Drain>,
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
}

impl Results {
    /// Adds a measurement, with the processor times before and after it.
    pub fn add(&mut self, kind: Kind, measurement: &Measurement, cpu: Option<(CpuTimes, CpuTimes)>) {
        let series = self.series.entry(kind).or_default();
        series.rates.push(measurement.per_second());
        series.generator_cpu.push(measurement.generator_cpu);
        match &mut series.latency {
            // Cannot fail: all histograms have the same bounds.
            Some(latency) => latency.add(&measurement.latency).unwrap_or_default(),
            empty => *empty = Some(measurement.latency.clone()),
        }
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
        for (what, count) in &measurement.unexpected {
            *self.unexpected.entry(format!("{}: {what}", kind.name())).or_default() += count;
        }
    }

    pub fn add_ratio(&mut self, kind: Kind, ratio: f64) {
        self.series.entry(kind).or_default().ratios.push(ratio);
    }

    /// The table of all measurements, which were made over so many `connections`.
    pub fn into_table(self, connections: u16, on_postgres: bool) -> Table {
        let row = |(kind, series): (&Kind, &Series)| Row {
            kind: *kind,
            per_second: median(&series.rates),
            range: range(&series.rates),
            p50_ms: quantile_ms(series, 0.5),
            p99_ms: quantile_ms(series, 0.99),
            ratio: median_of(&series.ratios),
            ratio_range: (!series.ratios.is_empty()).then(|| range(&series.ratios)),
            goal: kind.goal(connections, on_postgres),
            machine_us: median_of(&series.machine_us),
            engine_us: median_of(&series.engine_us),
            redis_us: median_of(&series.redis_us),
            writer_us: median_of(&series.writer_us).filter(|_| *kind == Kind::Reserve),
            own_load: median(&series.generator_cpu),
        };
        Table { connections, rows: self.series.iter().map(row).collect(), drains: self.drains }
    }
}

fn median_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

fn quantile_ms(series: &Series, quantile: f64) -> f64 {
    series.latency.as_ref().map_or(0.0, |latency| meter::micros_to_ms(latency.value_at_quantile(quantile)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn measurement(responses: u64, unexpected: &[(&str, u64)]) -> Measurement {
        Measurement {
            succeeded: responses,
            elapsed: Duration::from_secs(1),
            latency: meter::histogram().unwrap(),
            unexpected: unexpected.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect(),
            bodies: Vec::new(),
            generator_cpu: 0.5,
            started_at: Instant::now(),
        }
    }

    fn cpu(engine: u64, redis: u64, writer: u64) -> CpuTimes {
        let [engine, redis, writer] = [engine, redis, writer].map(Duration::from_millis);
        CpuTimes { machine: engine + writer + redis, engine, writer, redis }
    }

    #[test]
    fn the_median_ignores_an_outlier_and_the_range_shows_it() {
        let mut results = Results::default();
        for rate in [100, 90, 5] {
            results.add(Kind::Reserve, &measurement(rate, &[]), None);
            results.add_ratio(Kind::Reserve, rate as f64 / 100.0);
        }
        let table = results.into_table(64, false);
        assert_eq!(table.rows[0].per_second.round(), 90.0);
        assert_eq!(table.rows[0].range, (5.0, 100.0));
        assert_eq!(table.rows[0].ratio, Some(0.9));
        assert_eq!(median(&[1.0, 3.0]), 2.0);
    }

    #[test]
    fn processor_time_is_per_request_and_the_writers_only_where_it_has_orders() {
        let mut results = Results::default();
        for kind in [Kind::Reserve, Kind::Status] {
            results.add(kind, &measurement(1_000, &[]), Some((cpu(10, 0, 5), cpu(110, 20, 35))));
        }
        let rows = results.into_table(64, false).rows;
        assert_eq!((rows[0].engine_us, rows[0].redis_us, rows[0].writer_us), (Some(100.0), Some(20.0), Some(30.0)));
        assert_eq!((rows[1].engine_us, rows[1].writer_us), (Some(100.0), None));
    }

    #[test]
    fn unexpected_responses_are_counted_by_route() {
        let mut results = Results::default();
        results.add(Kind::Gate, &measurement(1000, &[("500 instead of 200", 1)]), None);
        results.add(Kind::Gate, &measurement(1000, &[("500 instead of 200", 2)]), None);
        assert_eq!(results.unexpected["gate.json: 500 instead of 200"], 3);
    }
}
