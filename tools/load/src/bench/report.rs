//! Reports medians over the rounds, with their noise, against the goals.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use comfy_table::{Cell, Color};
use serde::{Deserialize, Serialize};

use super::{
    calls::Calls,
    dimension::Dimension,
    kind::{Goal, Kind},
    results::{Results, Row},
};
use crate::{
    plot::{self, Bar},
    statistics::Spread,
    table,
};

/// All measurements at one number of connections, or at one size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    /// `64 connections`, `10000 orders in the sale`.
    pub title: String,
    /// What grows from table to table.
    pub grows: Option<Dimension>,
    pub connections: u16,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// Engine and ledger of an app that the benchmark started.
    pub stack: Option<String>,
    pub on_postgres: bool,
    /// Processors of this machine, shared by app, Redis, ledger and load generator.
    pub cores: usize,
    pub tables: Vec<Table>,
    /// Orders that the order writer wrote in a second after each pause during which the queue grew; only of an app that
    /// the benchmark started.
    pub writer_per_second: Vec<f64>,
    pub unexpected: BTreeMap<String, u64>,
}

impl Row {
    /// The goal as text and whether it is reached.
    fn judge(&self) -> Option<(String, bool)> {
        Some(match self.goal? {
            Goal::Ratio(ratio) => (format!("{ratio:.2}"), self.ratio?.median >= ratio),
            Goal::Rate { per_second, p99_ms } => {
                let reached = self.per_second.median >= per_second && self.p99_ms <= p99_ms;
                (format!("{per_second:.0}/s, p99 {p99_ms:.0} ms"), reached)
            }
        })
    }

    /// The ratio, or without floors the rate, as a multiple of `old`, and whether the two ranges overlap.
    fn compare(&self, old: &Self) -> String {
        let (new, old) = self.ratio.zip(old.ratio).unwrap_or((self.per_second, old.per_second));
        let judgement = if new.highest < old.lowest {
            "slower"
        } else if new.lowest > old.highest {
            "faster"
        } else {
            "within noise"
        };
        format!("{:.2} {judgement}", new.median / old.median)
    }
}

impl Table {
    /// The measurements of one route or floor.
    pub fn row(&self, kind: Kind) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == kind)
    }

    /// The table as text; with a comparison to `old`.
    fn text(&self, old: Option<&Self>) -> String {
        let mut header: Vec<_> =
            "|requests/s|p50 ms|p99 ms|held back|floor|ratio|lowest–highest|noise|goal|CPU µs|engine|Redis|calls"
                .split('|')
                .map(str::to_owned)
                .collect();
        header.extend(
            old.map(|old| if self.grows.is_some() { format!("to {}", old.title) } else { "to old".to_owned() }),
        );
        let mut table = table::new(&header);
        let optional = |value: Option<f64>| table::number_cell(value.map_or_else(String::new, |us| format!("{us:.0}")));
        let mut noise = Vec::new();
        for row in &self.rows {
            let floor = row.kind.floor().filter(|_| row.ratio.is_some());
            let row_noise = row.ratio.unwrap_or(row.per_second).noise();
            noise.push(row_noise);
            let mut cells = vec![
                Cell::new(row.kind.name()),
                table::number_cell(format!("{:.0}", row.per_second.median)),
                table::number_cell(format!("{:.2}", row.p50_ms)),
                table::number_cell(format!("{:.2}", row.p99_ms)),
                table::number_cell(row.held_back.map_or_else(String::new, |percent| format!("{percent:.1} %"))),
                Cell::new(floor.map_or("", |floor| floor.name().trim_start_matches("floor: "))),
                table::number_cell(row.ratio.map_or_else(String::new, |ratio| format!("{:.3}", ratio.median))),
                table::number_cell(
                    row.ratio.map_or_else(String::new, |ratio| format!("{:.3}–{:.3}", ratio.lowest, ratio.highest)),
                ),
                table::number_cell(format!("±{row_noise:.0} %")),
                row.judge().map_or_else(|| Cell::new(""), goal_cell),
                optional(row.machine_us),
                optional(row.engine_us),
                optional(row.redis_us),
                Cell::new(row.calls.map(Calls::text).unwrap_or_default()),
            ];
            if let Some(old) = old {
                cells.push(Cell::new(old.row(row.kind).map_or_else(String::new, |old| row.compare(old))));
            }
            table.add_row(cells);
        }
        let noise = Spread::of(&noise).map_or_else(String::new, |noise| noise.text(0));
        format!("{}\n\n{table}\nnoise of the interleaved rounds, ± percent: {noise}\n", self.title)
    }
}

impl Report {
    /// Reads a `bench.json`.
    pub fn read(path: &Path) -> Result<Self> {
        let json = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let what = || format!("{} is not a bench.json of this version", path.display());
        serde_json::from_slice(&json).with_context(what)
    }

    /// Adds a table.
    pub fn add(&mut self, results: Results, title: String, grows: Option<Dimension>, connections: u16) {
        let rows = results.rows(connections, self.on_postgres);
        self.tables.push(Table { title, grows, connections, rows });
        for (what, count) in results.unexpected {
            *self.unexpected.entry(what).or_default() += count;
        }
    }

    /// 0, or 1 if any response was unexpected.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.unexpected.is_empty())
    }

    /// The report as text. Tables of growth are compared with that of the smallest size, the others with `baseline`.
    pub fn text(&self, baseline: Option<&Self>) -> String {
        let old = |table: &Table| match table.grows {
            None => baseline?.tables.iter().find(|old| old.title == table.title),
            grows => self.tables.iter().find(|first| first.grows == grows).filter(|first| first.title != table.title),
        };
        let tables: String = self.tables.iter().map(|table| format!("{}\n", table.text(old(table)))).collect();
        let unexpected_lines: String =
            self.unexpected.iter().map(|(what, count)| format!("\nUNEXPECTED {count} × {what}")).collect();
        let stack = self.stack.as_ref().map(|stack| format!("{stack}, {} cores, ", self.cores)).unwrap_or_default();
        format!("{stack}{tables}{}{unexpected_lines}", self.writer_text().unwrap_or_default())
    }

    /// Writes `bench.json`, and `bench.svg` or a picture of each dimension, into `directory`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        table::write_file(directory, "bench.json", serde_json::to_vec_pretty(self)?)?;
        for tables in self.tables.chunk_by(|one, next| one.grows == next.grows) {
            let name = match tables[0].grows {
                None => "bench.svg".to_owned(),
                Some(dimension) => format!("growth-{dimension:?}.svg").to_lowercase(),
            };
            table::write_file(directory, &name, draw(tables)?)?;
        }
        Ok(())
    }

    fn writer_text(&self) -> Option<String> {
        let rate = Spread::of(&self.writer_per_second)?;
        let goal = if self.on_postgres { 25_000.0 } else { 32_000.0 };
        let label = if rate.median >= goal { "ok" } else { "below" };
        let cost = self.tables.iter().find_map(|table| table.row(Kind::Reserve)?.writer_us).unwrap_or_default();
        Some(format!(
            "order writer  {} orders/s from a full queue, goal {goal:.0} {label}; beside reservations {cost:.0} µs an order",
            rate.text(0)
        ))
    }
}

/// Draws each route's ratio to its floor, with its range and its goal, in each of `tables`.
fn draw(tables: &[Table]) -> Result<String> {
    let mut groups: BTreeMap<Kind, Vec<Bar>> = BTreeMap::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        if let Some(ratio) = row.ratio {
            let goal = match row.goal {
                Some(Goal::Ratio(goal)) => Some(goal),
                _ => None,
            };
            groups.entry(row.kind).or_default().push(Bar { ratio, goal });
        }
    }
    let groups: Vec<_> = groups.into_iter().map(|(kind, bars)| (kind.name(), bars)).collect();
    let series: Vec<_> = tables.iter().map(|table| table.title.clone()).collect();
    plot::draw_bars("Requests per second, relative to the floor of each route", &series, &groups)
}

fn goal_cell((goal, reached): (String, bool)) -> Cell {
    let (label, color) = if reached { ("ok", Color::Green) } else { ("below", Color::Yellow) };
    table::number_cell(format!("{goal} {label}")).fg(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread { median, lowest: median * 0.9, highest: median * 1.1 }
    }

    fn row(kind: Kind, per_second: f64, ratio: Option<f64>) -> Row {
        Row {
            kind,
            per_second: spread(per_second),
            p50_ms: 1.0,
            p99_ms: 6.0,
            ratio: ratio.map(spread),
            goal: kind.goal(64, false),
            machine_us: None,
            engine_us: None,
            redis_us: None,
            writer_us: None,
            own_load: 0.1,
            calls: None,
            half_load_us: None,
            held_back: None,
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        let table = Table { title: "64 connections".to_owned(), grows: None, connections: 64, rows };
        Report { tables: vec![table], ..Report::default() }
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
    fn every_ratio_has_its_noise_and_a_difference_within_it_is_none() {
        let old = report(vec![row(Kind::Reserve, 1.0, Some(0.5)), row(Kind::Status, 1.0, Some(0.5))]);
        let new = report(vec![row(Kind::Reserve, 1.0, Some(0.7)), row(Kind::Status, 1.0, Some(0.45))]);
        let text = new.text(Some(&old));
        for part in ["0.630–0.770", "±10 %", "1.40 faster", "0.90 within noise"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(old.text(Some(&new)).contains("0.71 slower"));
        assert!(!new.text(None).contains("within noise"));
    }

    #[test]
    fn growth_is_compared_with_the_smallest_size() {
        let mut growth = report(vec![row(Kind::Audit, 1.0, Some(0.5))]);
        growth.tables.push(report(vec![row(Kind::Audit, 1.0, Some(0.1))]).tables.remove(0));
        for (table, title) in growth.tables.iter_mut().zip(["0 orders", "10 orders"]) {
            (table.title, table.grows) = (title.to_owned(), Some(Dimension::Orders));
        }
        let text = growth.text(None);
        assert!(text.contains("to 0 orders") && text.contains("0.20 slower"), "{text}");
    }

    #[test]
    fn the_json_can_be_read_again_and_the_picture_has_every_ratio() {
        let report = report(vec![row(Kind::Reserve, 4_000.0, Some(0.5)), row(Kind::Hello, 20_000.0, None)]);
        let read: Report = serde_json::from_slice(&serde_json::to_vec(&report).unwrap()).unwrap();
        assert_eq!(read.text(None), report.text(None));
        let svg = draw(&report.tables).unwrap();
        assert!(svg.contains("reserve") && !svg.contains("hello"), "{svg}");
    }
}
