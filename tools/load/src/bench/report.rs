//! Reports medians over the rounds, with their range, against the goals in docs/performance.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Cell, Color};
use serde::{Deserialize, Serialize};

use super::drain::Drain;
use super::kind::{Goal, Kind};
use crate::plot::{self, Bar};
use crate::statistics::{median, median_and_range};
use crate::table;

/// The measurements of one route or floor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub kind: Kind,
    /// Requests per second: median over the rounds.
    pub per_second: f64,
    pub range: (f64, f64),
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Ratio to the floor: median over the rounds.
    pub ratio: Option<f64>,
    pub ratio_range: Option<(f64, f64)>,
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
}

/// All measurements at one number of connections.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    pub connections: u16,
    pub rows: Vec<Row>,
    /// The order writer during the reservations, one entry per round.
    pub drains: Vec<Drain>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// Engine and ledger of an app that the benchmark started.
    pub stack: Option<String>,
    /// Processors of this machine, shared by app, Redis, ledger and load generator.
    pub cores: usize,
    /// One for each number of connections.
    pub tables: Vec<Table>,
    /// The order writer after pauses during which the queue grew; only for an app that the benchmark started.
    #[serde(rename = "backlogs")]
    pub drains_after_pause: Vec<Drain>,
    /// Goal for the order writer on this ledger, in orders per second.
    pub writer_goal: f64,
    pub unexpected: BTreeMap<String, u64>,
}

impl Row {
    /// The goal as text and whether it is reached.
    fn judge(&self) -> Option<(String, bool)> {
        Some(match self.goal? {
            Goal::Ratio(ratio) => (format!("{ratio:.2}"), self.ratio? >= ratio),
            Goal::Rate { per_second, p99_ms } => {
                let reached = self.per_second >= per_second && self.p99_ms <= p99_ms;
                (format!("{per_second:.0}/s, p99 {p99_ms:.0} ms"), reached)
            }
        })
    }
}

impl Table {
    /// The measurements of one route or floor.
    pub fn row(&self, kind: Kind) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == kind)
    }

    /// The table as text; with the figures of `baseline`, if it has a table for as many connections.
    fn text(&self, baseline: Option<&Self>) -> String {
        let mut header: Vec<_> =
            "|requests/s|lowest–highest|p50 ms|p99 ms|floor|ratio|lowest–highest|goal|CPU µs|engine|Redis"
                .split('|')
                .collect();
        if baseline.is_some() {
            header.extend(["rate, new/old", "ratio, new/old"]);
        }
        let mut table = table::new(&header);
        let optional = |value: Option<f64>, decimals: usize| {
            table::number_cell(value.map_or_else(String::new, |value| format!("{value:.decimals$}")))
        };
        for row in &self.rows {
            let floor = row.kind.floor().filter(|_| row.ratio.is_some());
            let floor = floor.map_or("", |floor| floor.name().trim_start_matches("floor: "));
            let mut cells = vec![
                Cell::new(row.kind.name()),
                table::number_cell(format!("{:.0}", row.per_second)),
                table::number_cell(format!("{:.0}–{:.0}", row.range.0, row.range.1)),
                table::number_cell(format!("{:.2}", row.p50_ms)),
                table::number_cell(format!("{:.2}", row.p99_ms)),
                Cell::new(floor),
                optional(row.ratio, 2),
                table::number_cell(
                    row.ratio_range.map_or_else(String::new, |(low, high)| format!("{low:.2}–{high:.2}")),
                ),
                row.judge().map_or_else(|| Cell::new(""), goal_cell),
                optional(row.machine_us, 0),
                optional(row.engine_us, 0),
                optional(row.redis_us, 0),
            ];
            if let Some(baseline) = baseline {
                let old = baseline.row(row.kind);
                cells.push(optional(old.map(|old| row.per_second / old.per_second), 2));
                cells.push(optional(old.and_then(|old| Some(row.ratio? / old.ratio?)), 2));
            }
            table.add_row(cells);
        }
        format!("{} connections\n\n{table}\n", self.connections)
    }
}

impl Report {
    /// Reads a `bench.json`.
    pub fn read(path: &Path) -> Result<Self> {
        let json = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let what = || format!("{} is not a bench.json of this version", path.display());
        serde_json::from_slice(&json).with_context(what)
    }

    /// 0, or 1 if any response was unexpected.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.unexpected.is_empty())
    }

    /// The table for so many connections.
    pub fn table(&self, connections: u16) -> Option<&Table> {
        self.tables.iter().find(|table| table.connections == connections)
    }

    /// The report as text, with the figures relative to those of `baseline`.
    pub fn text(&self, baseline: Option<&Self>) -> String {
        let old_table = |table: &Table| baseline.and_then(|baseline| baseline.table(table.connections));
        let tables: String = self.tables.iter().map(|table| format!("{}\n", table.text(old_table(table)))).collect();
        let unexpected_lines: String =
            self.unexpected.iter().map(|(what, count)| format!("\nUNEXPECTED {count} × {what}")).collect();
        let stack = self.stack.as_ref().map(|stack| format!("{stack}, {} cores, ", self.cores)).unwrap_or_default();
        format!("{stack}{tables}{}{unexpected_lines}", self.writer_text())
    }

    /// Writes `bench.json` and `bench.svg` into `directory`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        table::write_file(directory, "bench.json", serde_json::to_vec_pretty(self)?)?;
        table::write_file(directory, "bench.svg", self.draw()?)
    }

    /// Draws each route's ratio to its floor, with its range and its goal.
    fn draw(&self) -> Result<String> {
        let mut groups: BTreeMap<Kind, Vec<Bar>> = BTreeMap::new();
        for row in self.tables.iter().flat_map(|table| &table.rows) {
            if let (Some(value), Some(range)) = (row.ratio, row.ratio_range) {
                let goal = match row.goal {
                    Some(Goal::Ratio(goal)) => Some(goal),
                    _ => None,
                };
                groups.entry(row.kind).or_default().push(Bar { value, range, goal });
            }
        }
        let groups: Vec<_> = groups.into_iter().map(|(kind, bars)| (kind.name(), bars)).collect();
        let series: Vec<_> = self.tables.iter().map(|table| format!("{} connections", table.connections)).collect();
        plot::draw_bars("Requests per second, relative to the floor of each route", &series, &groups)
    }

    fn writer_text(&self) -> String {
        let drains = || self.tables.iter().flat_map(|table| &table.drains);
        let during_rush: Vec<f64> = drains().map(|drain| drain.orders_per_second).collect();
        if during_rush.is_empty() {
            return "order writer: not measured".to_owned();
        }
        let waiting = drains().map(|drain| drain.queued).max().unwrap_or_default();
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
        let costs: Vec<f64> = self.tables.iter().filter_map(|table| table.row(Kind::Reserve)?.writer_us).collect();
        let cost = if costs.is_empty() { String::new() } else { format!("; {:.0} µs an order", median(&costs)) };
        format!(
            "order writer  {after_pause}\n              {} orders/s from the first reservation to the empty queue{cost}; \
             {waiting} orders or fewer waited when the last was answered",
            median_and_range(&during_rush, 0)
        )
    }
}

fn goal_cell((goal, reached): (String, bool)) -> Cell {
    let (label, color) = if reached { ("ok", Color::Green) } else { ("below", Color::Yellow) };
    table::number_cell(format!("{goal} {label}")).fg(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, per_second: f64, ratio: Option<f64>) -> Row {
        Row {
            kind,
            per_second,
            range: (per_second, per_second),
            p50_ms: 1.0,
            p99_ms: 6.0,
            ratio,
            ratio_range: ratio.map(|ratio| (ratio, ratio)),
            goal: kind.goal(64, false),
            machine_us: None,
            engine_us: None,
            redis_us: None,
            writer_us: None,
            own_load: 0.1,
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { tables: vec![Table { connections: 64, rows, drains: Vec::new() }], ..Report::default() }
    }

    #[test]
    fn every_kind_of_goal_is_judged() {
        for (row, reached) in [
            (row(Kind::Reserve, 1.0, Some(0.70)), true),
            (row(Kind::Reserve, 1.0, Some(0.69)), false),
            (row(Kind::Checkout, 1_500.0, None), true),
            (row(Kind::Checkout, 1_499.0, None), false),
            (Row { p99_ms: 101.0, ..row(Kind::Checkout, 1_500.0, None) }, false),
        ] {
            assert_eq!(row.judge().unwrap().1, reached, "{row:?}");
        }
        assert_eq!(row(Kind::MyOrders, 1.0, Some(0.5)).judge(), None);
    }

    #[test]
    fn a_baseline_shows_new_to_old() {
        let old = report(vec![row(Kind::Reserve, 4_000.0, Some(0.5))]);
        let new = report(vec![row(Kind::Reserve, 5_000.0, Some(0.7)), row(Kind::Status, 9_000.0, Some(0.9))]);
        let text = new.text(Some(&old));
        assert!(text.contains("1.25") && text.contains("1.40"), "{text}");
        assert!(!new.text(None).contains("new/old"));
    }

    #[test]
    fn the_json_can_be_read_again_and_the_picture_has_every_ratio() {
        let report = report(vec![row(Kind::Reserve, 4_000.0, Some(0.5)), row(Kind::Hello, 20_000.0, None)]);
        let read: Report = serde_json::from_slice(&serde_json::to_vec(&report).unwrap()).unwrap();
        assert_eq!(read.text(None), report.text(None));
        let svg = report.draw().unwrap();
        assert!(svg.contains("reserve") && !svg.contains("hello"), "{svg}");
    }

    #[test]
    fn one_unexpected_response_fails_the_run() {
        let mut report = report(vec![row(Kind::Gate, 1.0, None)]);
        assert_eq!(report.exit_code(), 0);
        report.unexpected.insert("gate.json: 500 instead of 200".to_owned(), 1);
        assert_eq!(report.exit_code(), 1);
        assert!(report.text(None).contains("UNEXPECTED 1 × gate.json: 500 instead of 200"), "{}", report.text(None));
    }
}
