//! Plots a sale over time: reservations, latency and stock.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::report::Report;
use crate::meter::{Step, StepSummary};

const SIZE: (u32, u32) = (900, 300);
/// Distinguishable with red-green colour blindness.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(213, 94, 0),
    RGBColor(0, 130, 100),
    RGBColor(150, 60, 140),
    RGBColor(90, 90, 90),
    RGBColor(0, 0, 0),
];

/// Name and points of a line: seconds since the opening, and a value.
type Series = (String, Vec<(f64, f64)>);

/// Responses to reservations per timeline bucket, by label.
pub fn responses(report: &Report) -> Result<String> {
    let Some(reserve) = step(report, Step::Reserve) else { return Ok(String::new()) };
    let kinds: BTreeSet<&String> = reserve.answers.keys().collect();
    let per_second = 1000.0 / report.timeline_step_ms as f64;
    let series = |kind: &&String| {
        let points = contiguous(&reserve.timeline).map(|(at, responses)| {
            let count = responses.and_then(|responses| responses.get(*kind)).copied().unwrap_or_default();
            (seconds(report, at * report.timeline_step_ms), count as f64 * per_second)
        });
        ((*kind).clone(), points.collect())
    };
    draw("Reservations by answer", "a second", &kinds.iter().map(series).collect::<Vec<_>>())
}

/// Latency of reservations per timeline bucket.
pub fn latency(report: &Report) -> Result<String> {
    let Some(reserve) = step(report, Step::Reserve) else { return Ok(String::new()) };
    let series = |name: &str, pick: fn(&crate::meter::Latency) -> f64| {
        let points =
            reserve.latencies.iter().map(|(at, seen)| (seconds(report, at * report.timeline_step_ms), pick(seen)));
        (name.to_owned(), points.collect())
    };
    draw("Latency of reservations", "ms", &[series("median", |seen| seen.p50_ms), series("99 %", |seen| seen.p99_ms)])
}

/// Units left, held and sold, summed over all SKUs.
pub fn stock(report: &Report) -> Result<String> {
    let mut sums = BTreeMap::<u64, [i64; 3]>::new();
    for sample in &report.stock {
        let sum = sums.entry(sample.at_ms).or_default();
        for (sum, units) in sum.iter_mut().zip([sample.stock.left, sample.stock.held, sample.stock.sold]) {
            *sum += units;
        }
    }
    let series = |name: &str, at: usize| {
        let points = sums.iter().map(|(ms, sum)| (seconds(report, *ms), sum[at] as f64));
        (name.to_owned(), points.collect())
    };
    draw("Stock", "units", &[series("left", 0), series("held", 1), series("sold", 2)])
}

fn step(report: &Report, step: Step) -> Option<&StepSummary> {
    report.steps.iter().find(|summary| summary.step == step)
}

fn seconds(report: &Report, ms: u64) -> f64 {
    (ms as f64 - report.opened_at_ms as f64) / 1000.0
}

/// Every bucket from the first to the last, including empty ones.
fn contiguous<T>(timeline: &BTreeMap<u64, T>) -> impl Iterator<Item = (u64, Option<&T>)> {
    let ends = timeline.keys().next().zip(timeline.keys().next_back());
    ends.into_iter().flat_map(|(first, last)| *first..=*last).map(|at| (at, timeline.get(&at)))
}

fn draw(title: &str, unit: &str, series: &[Series]) -> Result<String> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let (from, to) = points().fold((0.0_f64, 1.0_f64), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
    let max_y = points().fold(1.0_f64, |max_y, (_, value)| max_y.max(*value)) * 1.05;
    let mut svg = String::new();
    render(&mut svg, title, unit, series, (from, to, max_y))
        .map_err(|error| anyhow!("cannot draw {title}: {error}"))?;
    Ok(svg)
}

fn render(
    svg: &mut String,
    title: &str,
    unit: &str,
    series: &[Series],
    (from, to, max_y): (f64, f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(from..to, 0.0..max_y)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("seconds since the opening").y_desc(unit).draw()?;
    for (at, (name, points)) in series.iter().enumerate() {
        let style = COLORS[at % COLORS.len()].stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_with_their_names() {
        let svg = draw("Stock", "units", &[("left".to_owned(), vec![(0.0, 5.0), (1.0, 2.0)])]).unwrap();
        for part in ["<svg", "Stock", "units", "left", "<polyline", "</svg>"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
    }

    #[test]
    fn buckets_without_responses_are_included() {
        let timeline = BTreeMap::from([(3, "a"), (5, "b")]);
        assert_eq!(contiguous(&timeline).collect::<Vec<_>>(), [(3, Some(&"a")), (4, None), (5, Some(&"b"))]);
        assert_eq!(contiguous(&BTreeMap::<u64, ()>::new()).count(), 0);
    }
}
