//! What robots cost honest buyers: sales without and with them, by turns and with the same crowd.

use anyhow::Result;

use super::report::Report;
use super::{Options, run};
use crate::bench::report::{median, range};

/// Holds the sales and prints the comparison. The report is that of the last sale, or of the first that is bad.
pub async fn compare(options: &Options) -> Result<Report> {
    println!("A sale without robots, then the same with them; rounds: {}.", options.rounds);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    loop {
        let seed = Some(options.seed.unwrap_or_else(|| fastrand::u64(..)));
        let calm = run(Options { robots: false, seed, ..options.clone() }).await?;
        if calm.verdict.exit_code() != 0 {
            return Ok(calm);
        }
        let wild = run(Options { seed, ..options.clone() }).await?;
        if wild.verdict.exit_code() != 0 {
            return Ok(wild);
        }
        without.push(calm.reserve_p99_ms());
        with.push(wild.reserve_p99_ms());
        if with.len() >= options.rounds as usize {
            println!(
                "Reservations of honest buyers, p99: {} without robots, {} with them ({:+.0} %).",
                middle(&without),
                middle(&with),
                100.0 * (median(&with) / median(&without) - 1.0)
            );
            return Ok(wild);
        }
    }
}

fn middle(p99: &[f64]) -> String {
    let (low, high) = range(p99);
    format!("{:.1} ms ({low:.1}–{high:.1})", median(p99))
}
