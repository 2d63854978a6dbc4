//! Reports medians over the rounds, with their range, against the goals in docs/performance.md.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use comfy_table::{Cell, Color};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::closed_loop::Measurement;
use super::drain::Drain;
use super::endurance::Endurance;
use crate::statistics::{median, median_and_range, range};
use crate::{meter, table};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasurementKind {
    Hello,
    Activity,
    Gate,
    Ticket,
    /// A reservation that is accepted.
    Reserve,
    /// A reservation that is refused as sold out.
    SoldOut,
    Status,
}

impl MeasurementKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello world",
            Self::Activity => "activity info",
            Self::Gate => "gate.json",
            Self::Ticket => "ticket",
            Self::Reserve => "reserve",
            Self::SoldOut => "reserve, sold out",
            Self::Status => "order status",
        }
    }

    /// The lowest ratio to hello world that docs/performance.md asks for.
    fn goal(self) -> Option<f64> {
        match self {
            Self::Reserve | Self::Status => Some(0.8),
            Self::SoldOut => Some(0.95),
            Self::Hello | Self::Activity | Self::Gate | Self::Ticket => None,
        }
    }
}

/// The measurements so far, and what is reported of them.
#[derive(Debug, Default)]
pub struct Results {
    series: BTreeMap<MeasurementKind, Series>,
    pub report: Report,
}

#[derive(Debug, Default)]
struct Series {
    rates: Vec<f64>,
    ratios: Vec<f64>,
    generator_cpu: Vec<f64>,
    latency: Option<Histogram<u64>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub kind: MeasurementKind,
    /// Requests per second: median over the rounds.
    pub per_second: f64,
    pub range: (f64, f64),
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Ratio to hello world: median over the rounds.
    pub ratio: Option<f64>,
    pub ratio_range: Option<(f64, f64)>,
    /// The lowest ratio that docs/performance.md asks for.
    pub goal: Option<f64>,
    /// CPU use of the load generator: 1.0 is one full core.
    pub own_load: f64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    pub rows: Vec<Row>,
    /// The order writer during the reservations, one entry per round.
    pub drains: Vec<Drain>,
    /// The order writer after pauses during which the queue grew; only for an app that the benchmark started.
    #[serde(rename = "backlogs")]
    pub drains_after_pause: Vec<Drain>,
    /// Goal for the order writer on this ledger, in orders per second.
    pub writer_goal: f64,
    pub endurance: Option<Endurance>,
    pub unexpected: BTreeMap<String, u64>,
}

impl Results {
    /// Adds a measurement and returns its rate, in requests per second.
    pub fn add(&mut self, kind: MeasurementKind, measurement: Measurement) -> f64 {
        let series = self.series.entry(kind).or_default();
        let rate = measurement.per_second();
        series.rates.push(rate);
        series.generator_cpu.push(measurement.generator_cpu);
        match &mut series.latency {
            // Cannot fail: all histograms have the same bounds.
            Some(latency) => latency.add(&measurement.latency).unwrap_or_default(),
            empty => *empty = Some(measurement.latency),
        }
        self.add_unexpected(kind, measurement.unexpected);
        rate
    }

    /// Counts unexpected responses, by description.
    pub fn add_unexpected(&mut self, kind: MeasurementKind, unexpected: BTreeMap<String, u64>) {
        for (what, count) in unexpected {
            *self.report.unexpected.entry(format!("{}: {what}", kind.name())).or_default() += count;
        }
    }

    pub fn add_ratio(&mut self, kind: MeasurementKind, ratio: f64) {
        self.series.entry(kind).or_default().ratios.push(ratio);
    }

    /// The report of all measurements.
    pub fn into_report(self) -> Report {
        let row = |(kind, series): (&MeasurementKind, &Series)| Row {
            kind: *kind,
            per_second: median(&series.rates),
            range: range(&series.rates),
            p50_ms: latency_quantile_ms(series, 0.5),
            p99_ms: latency_quantile_ms(series, 0.99),
            ratio: (!series.ratios.is_empty()).then(|| median(&series.ratios)),
            ratio_range: (!series.ratios.is_empty()).then(|| range(&series.ratios)),
            goal: kind.goal(),
            own_load: median(&series.generator_cpu),
        };
        Report { rows: self.series.iter().map(row).collect(), ..self.report }
    }
}

impl Report {
    /// 0, or 1 if any response was unexpected.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.unexpected.is_empty())
    }

    pub fn text(&self) -> String {
        let header = "|requests/s|lowest–highest|p50 ms|p99 ms|ratio|lowest–highest|goal|own CPU";
        let mut table = table::new(&header.split('|').collect::<Vec<_>>());
        for row in &self.rows {
            table.add_row([
                Cell::new(row.kind.name()),
                table::number_cell(format!("{:.0}", row.per_second)),
                table::number_cell(format!("{:.0}–{:.0}", row.range.0, row.range.1)),
                table::number_cell(format!("{:.2}", row.p50_ms)),
                table::number_cell(format!("{:.2}", row.p99_ms)),
                table::number_cell(row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))),
                table::number_cell(
                    row.ratio_range.map_or_else(String::new, |(low, high)| format!("{low:.2}–{high:.2}")),
                ),
                goal_cell(row.goal.map(|goal| format!("{goal:.2}")), row.ratio >= row.goal),
                table::number_cell(format!("{:.0} %", row.own_load * 100.0)),
            ]);
        }
        let unexpected_lines: String =
            self.unexpected.iter().map(|(what, count)| format!("\nUNEXPECTED {count} × {what}")).collect();
        let endurance = self.endurance.map(|endurance| format!("\n{}", endurance.text())).unwrap_or_default();
        format!("{table}\n\n{}{endurance}{unexpected_lines}", self.writer_text())
    }

    /// Writes `bench.json` into `directory`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        table::write_file(directory, "bench.json", serde_json::to_vec_pretty(self)?)
    }

    fn writer_text(&self) -> String {
        if self.drains.is_empty() {
            return "order writer: not measured".to_owned();
        }
        let during_rush: Vec<f64> = self.drains.iter().map(|drain| drain.orders_per_second).collect();
        let waiting = self.drains.iter().map(|drain| drain.queued).max().unwrap_or_default();
        let after_pause: Vec<f64> =
            self.drains_after_pause.iter().filter_map(|drain| drain.drained_per_second).collect();
        let after_pause = if after_pause.is_empty() {
            "not measured on a backlog: that takes an app of the benchmark's own (no --url)".to_owned()
        } else {
            let queued = self.drains_after_pause.iter().map(|drain| drain.queued).max().unwrap_or_default();
            let label = if median(&after_pause) >= self.writer_goal { "ok" } else { "below" };
            format!(
                "{} orders/s on a backlog of {queued}, goal {:.0} {label}",
                median_and_range(&after_pause, 0),
                self.writer_goal
            )
        };
        format!(
            "order writer  {after_pause}\n              {} orders/s from the first reservation to the empty queue; \
             {waiting} orders or fewer waited when the last was answered",
            median_and_range(&during_rush, 0)
        )
    }
}

fn goal_cell(goal: Option<String>, reached: bool) -> Cell {
    let Some(goal) = goal else { return Cell::new("") };
    let (label, color) = if reached { ("ok", Color::Green) } else { ("below", Color::Yellow) };
    table::number_cell(format!("{goal} {label}")).fg(color)
}

fn latency_quantile_ms(series: &Series, quantile: f64) -> f64 {
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

    #[test]
    fn the_median_ignores_an_outlier_and_the_range_shows_it() {
        let mut results = Results::default();
        for rate in [100, 90, 5] {
            results.add(MeasurementKind::Reserve, measurement(rate, &[]));
            results.add_ratio(MeasurementKind::Reserve, rate as f64 / 100.0);
        }
        let report = results.into_report();
        assert_eq!(report.rows[0].per_second.round(), 90.0);
        assert_eq!(report.rows[0].range, (5.0, 100.0));
        assert_eq!(report.rows[0].ratio, Some(0.9));
        assert_eq!(report.exit_code(), 0);
        assert_eq!(median(&[1.0, 3.0]), 2.0);
    }

    #[test]
    fn one_unexpected_response_fails_the_run() {
        let mut results = Results::default();
        results.add(MeasurementKind::Gate, measurement(1000, &[("500 instead of 200", 1)]));
        let report = results.into_report();
        assert_eq!(report.exit_code(), 1);
        assert!(report.text().contains("UNEXPECTED 1 × gate.json: 500 instead of 200"), "{}", report.text());
    }
}
