//! Reports the cost of each route at each size, and how it compares with the smallest size.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::Cell;
use serde::Serialize;

use super::Dimension;
use crate::plot::{self, XAxis};
use crate::statistics::median;
use crate::table;

/// A measured route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// A reservation that is accepted.
    Reserve,
    /// A reservation that is refused as sold out.
    SoldOut,
    /// Order status.
    Status,
    /// A buyer's orders, from the ledger.
    MyOrders,
    /// The operator's live figures.
    Stats,
    /// The audit.
    Audit,
    /// A sweep.
    Sweep,
}

impl Route {
    /// The routes that can be measured again and again without changing the sale.
    pub const REPEATED: [Self; 6] =
        [Self::SoldOut, Self::Status, Self::MyOrders, Self::Stats, Self::Audit, Self::Sweep];

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::SoldOut => "reserve, sold out",
            Self::Status => "order status",
            Self::MyOrders => "my orders",
            Self::Stats => "stats",
            Self::Audit => "audit",
            Self::Sweep => "sweep",
        }
    }
}

/// Rates of one route at one size, one entry per round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rates {
    /// Requests per second.
    pub per_second: Vec<f64>,
    /// Ratios to hello world at the same connections and app processes.
    pub ratios: Vec<f64>,
}

/// All measurements at one size.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// What grows.
    pub dimension: Dimension,
    /// How large it is.
    pub size: usize,
    /// Rates by route.
    pub rates: BTreeMap<Route, Rates>,
    /// Unexpected responses and errors, with their number.
    pub unexpected: BTreeMap<String, u64>,
}

/// The whole report.
#[derive(Debug, Default, Serialize)]
pub struct Growth {
    /// All sizes of all dimensions, in the order of measurement.
    pub points: Vec<Point>,
}

impl Point {
    /// A point without measurements.
    pub fn new(dimension: Dimension, size: usize) -> Self {
        Self { dimension, size, rates: BTreeMap::new(), unexpected: BTreeMap::new() }
    }

    /// Adds one measurement, with the rate of hello world beside it.
    pub fn add(&mut self, route: Route, per_second: f64, hello: f64, unexpected: &BTreeMap<String, u64>) {
        let rates = self.rates.entry(route).or_default();
        rates.per_second.push(per_second);
        rates.ratios.push(per_second / hello.max(1e-9));
        for (what, count) in unexpected {
            *self.unexpected.entry(format!("{}: {what}", route.name())).or_default() += count;
        }
    }

    /// One line for the progress display.
    pub fn line(&self) -> String {
        let rates = self.rates.iter().map(|(route, rates)| format!("{} {:.3}", route.name(), median(&rates.ratios)));
        format!("{} {}: {}", self.size, self.dimension.name(), rates.collect::<Vec<_>>().join(", "))
    }

    fn ratio(&self, route: Route) -> f64 {
        self.rates.get(&route).map_or(0.0, |rates| median(&rates.ratios))
    }
}

impl Growth {
    /// 0, or 1 if any response was unexpected.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.points.iter().any(|point| !point.unexpected.is_empty()))
    }

    /// The report as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for points in self.points.chunk_by(|one, next| one.dimension == next.dimension) {
            let mut table =
                table::new(&[points[0].dimension.name(), "route", "requests/s", "ratio to hello world", "to smallest"]);
            for point in points {
                for (route, rates) in &point.rates {
                    table.add_row([
                        table::number_cell(point.size),
                        Cell::new(route.name()),
                        table::number_cell(format!("{:.0}", median(&rates.per_second))),
                        table::number_cell(format!("{:.3}", point.ratio(*route))),
                        table::number_cell(format!("{:.2}", relative(point, &points[0], *route))),
                    ]);
                }
            }
            text.push_str(&format!("{table}\n\n"));
        }
        for point in &self.points {
            for (what, count) in &point.unexpected {
                let place = format!("{} {}", point.size, point.dimension.name());
                text.push_str(&format!("UNEXPECTED {count} × {what} ({place})\n"));
            }
        }
        text
    }

    /// Writes `growth.json` and `growth-<dimension>.svg` into `directory`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let write = |name: &str, content: &[u8]| {
            let path = directory.join(name);
            std::fs::create_dir_all(directory)
                .and_then(|()| std::fs::write(&path, content))
                .with_context(|| format!("cannot write {}: choose another --report", path.display()))
        };
        write("growth.json", &serde_json::to_vec_pretty(self)?)?;
        for points in self.points.chunk_by(|one, next| one.dimension == next.dimension) {
            let name = format!("growth-{:?}.svg", points[0].dimension).to_lowercase();
            write(&name, draw(points)?.as_bytes())?;
        }
        Ok(())
    }
}

/// Ratio to hello world, relative to that of `smallest`: 1 if the cost does not grow, less if it does.
fn relative(point: &Point, smallest: &Point, route: Route) -> f64 {
    point.ratio(route) / smallest.ratio(route).max(1e-9)
}

fn draw(points: &[Point]) -> Result<String> {
    let labels: Vec<_> = points.iter().map(|point| point.size.to_string()).collect();
    let line = |route: &Route| {
        let values = points.iter().enumerate().map(|(at, point)| (at as f64, relative(point, &points[0], *route)));
        (route.name().to_owned(), values.collect())
    };
    let series: Vec<_> = points[0].rates.keys().map(line).collect();
    let x_axis = XAxis { title: points[0].dimension.name(), labels: Some(&labels) };
    plot::draw("Requests per hello world, relative to the smallest size", &x_axis, "times", &series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_relative_to_hello_world_and_to_the_smallest_size() {
        let mut growth = Growth::default();
        for (size, rate) in [(0, 500.0), (10, 100.0)] {
            let mut point = Point::new(Dimension::Orders, size);
            point.add(Route::Stats, rate, 1_000.0, &BTreeMap::new());
            growth.points.push(point);
        }
        assert_eq!(growth.points[1].ratio(Route::Stats), 0.1);
        assert_eq!(relative(&growth.points[1], &growth.points[0], Route::Stats), 0.2);
        assert_eq!(growth.exit_code(), 0);
        assert!(growth.text().contains("0.20"), "{}", growth.text());
        assert!(draw(&growth.points).unwrap().contains("orders in the sale"));
    }
}
