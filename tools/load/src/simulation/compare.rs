//! Measures what robots cost honest buyers: alternates sales without and with them.
//!
//! Both sales of a round have the same buyers.

use anyhow::Result;

use super::report::Report;
use super::{Options, run};
use crate::statistics::{median, median_and_range};

/// Runs the sales and prints the comparison. Returns the last report, or the first whose exit code is not 0.
pub async fn compare(options: &Options) -> Result<Report> {
    println!("A sale without robots, then the same with them; rounds: {}.", options.rounds);
    let (mut p99_without, mut p99_with) = (Vec::new(), Vec::new());
    loop {
        let seed = Some(options.seed.unwrap_or_else(|| fastrand::u64(..)));
        let baseline = run(Options { robots: false, seed, ..options.clone() }).await?;
        if baseline.verdict.exit_code() != 0 {
            return Ok(baseline);
        }
        let with_robots = run(Options { seed, ..options.clone() }).await?;
        if with_robots.verdict.exit_code() != 0 {
            return Ok(with_robots);
        }
        p99_without.push(baseline.reserve_p99_ms());
        p99_with.push(with_robots.reserve_p99_ms());
        if p99_with.len() >= options.rounds as usize {
            println!(
                "Reservations of honest buyers, p99 in ms: {} without robots, {} with them ({:+.0} %).",
                median_and_range(&p99_without, 1),
                median_and_range(&p99_with, 1),
                100.0 * (median(&p99_with) / median(&p99_without) - 1.0)
            );
            return Ok(with_robots);
        }
    }
}
