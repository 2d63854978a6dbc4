//! Command-line flags of `bench`.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::dimension::Dimension;
use crate::target::TargetOptions;

/// Measures an app: requests per second of each route, as a ratio to a function that does only what the route cannot
/// avoid (a floor), measured before and after it.
///
/// Without --url it starts an app of its own with fresh data, and the floors beside it, and stops both at
/// the end. Each route is measured once more at half load: "held back" is how many percent of its responses then took 38
/// to 60 ms longer than the median, as when a second packet waits for the acknowledgement of the first.
///
/// `scripts/bench --pages` measures the buyers' pages in Chromium instead: bytes, requests, time on 3G, Lighthouse.
///
/// Exit status: 0; 1 if any response was unexpected (errors are not a benchmark); 2 if it could not measure.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// The app to measure.
    #[command(flatten)]
    pub target: TargetOptions,

    /// With --url: the app of tools/floors, running beside it with the same Redis
    #[arg(long)]
    pub floors: Option<String>,

    /// Keep-alive connections, each with one request at a time; with several numbers, a table for each
    #[arg(long, num_args = 1.., default_values_t = [64], value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: Vec<u16>,

    /// Seconds per measurement; three times as many for requests that need a ticket or an order of their own
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,

    /// Interleaved rounds; the table shows medians, and their range as the noise
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,

    /// Tickets per round, at most; of them and of what is done with each, a quarter is kept for the half load
    #[arg(long, default_value_t = 10_000)]
    pub reserves: u32,

    /// Without --url: measure instead how the ratios change as these grow [default: all of them]
    #[arg(long, value_enum, value_name = "DIMENSION", num_args = 0..)]
    pub growth: Option<Vec<Dimension>>,

    /// With --growth: orders in the largest sale
    #[arg(long, default_value_t = 100_000)]
    pub growth_orders: usize,

    /// Directory for `bench.json` and `bench.svg`, or with --growth an SVG for each dimension
    #[arg(long)]
    pub report: Option<PathBuf>,

    /// The `bench.json` of an earlier run: the tables show the new ratios relative to it, and which differ by more than
    /// the noise
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
}

impl Options {
    /// Rejects flags that leave nothing to measure.
    pub fn validate(&self) -> Result<()> {
        ensure!(self.seconds > 0.0 && self.rounds > 0, "--seconds and --rounds must be above 0");
        ensure!(
            self.reserves > 2 * u32::from(self.most_connections()),
            "--reserves must be more than twice --connections"
        );
        ensure!(self.growth.is_none() || self.target.url.is_none(), "--growth starts its own app: leave out --url");
        Ok(())
    }

    /// The highest number of connections.
    pub fn most_connections(&self) -> u16 {
        self.connections.iter().copied().max().unwrap_or(1)
    }
}
