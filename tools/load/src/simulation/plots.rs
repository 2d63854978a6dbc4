//! Plots a sale over time: reservations, latency and stock.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::report::Report;
use crate::{
    meter::{Responses, Step, StepSummary},
    plot::Series,
};

/// Responses to reservations per timeline bucket, by label.
pub fn responses(report: &Report) -> Result<String> {
    let Some(reserve) = step(report, Step::Reserve) else { return Ok(String::new()) };
    let kinds: BTreeSet<&String> = reserve.all.responses.keys().collect();
    let per_second = 1000.0 / report.timeline_step_ms as f64;
    let series = |kind: &&String| {
        let points = contiguous(&reserve.timeline).map(|(at, responses)| {
            let count = responses.and_then(|bucket| bucket.responses.get(*kind)).copied().unwrap_or_default();
            (seconds(report, at * report.timeline_step_ms), count as f64 * per_second)
        });
        ((*kind).clone(), points.collect())
    };
    draw("Reservations by answer", "a second", &kinds.iter().map(series).collect::<Vec<_>>())
}

/// Latency of reservations per timeline bucket.
pub fn latency(report: &Report) -> Result<String> {
    let Some(reserve) = step(report, Step::Reserve) else { return Ok(String::new()) };
    let series = |name: &str, pick: fn(&Responses) -> f64| {
        let points =
            reserve.timeline.iter().map(|(at, seen)| (seconds(report, at * report.timeline_step_ms), pick(seen)));
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
    crate::plot::draw(title, "seconds since the opening", unit, series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_without_responses_are_included() {
        let timeline = BTreeMap::from([(3, "a"), (5, "b")]);
        assert_eq!(contiguous(&timeline).collect::<Vec<_>>(), [(3, Some(&"a")), (4, None), (5, Some(&"b"))]);
        assert_eq!(contiguous(&BTreeMap::<u64, ()>::new()).count(), 0);
    }
}
