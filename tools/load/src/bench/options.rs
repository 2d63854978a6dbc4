//! Command-line flags of `bench`.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::growth::Dimension;
use crate::target::TargetOptions;

/// Measures an app: requests per second, each as a ratio to hello world in the same run.
///
/// Without --url it builds and starts an app of its own with fresh data, and stops it at the end.
///
/// Exit status: 0; 1 if any response was unexpected (errors are not a benchmark); 2 if it could not measure.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// The app to measure.
    #[command(flatten)]
    pub target: TargetOptions,

    /// The route to use as hello world
    #[arg(long, default_value = "/healthz")]
    pub hello_path: String,

    /// Keep-alive connections, each with one request at a time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,

    /// Seconds per measurement
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,

    /// Rounds; the table shows medians
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,

    /// Reservations per round (counted, not timed, because each needs its own ticket)
    #[arg(long, default_value_t = 10_000)]
    pub reserves: u32,

    /// Without --url: also measure a long sale (memory per order, 100,000 orders in one sale, sweeping)
    #[arg(long)]
    pub endurance: bool,

    /// Without --url: measure instead how the cost of requests changes as these grow [default: all of them]
    #[arg(long, value_enum, value_name = "DIMENSION", num_args = 0..)]
    pub growth: Option<Vec<Dimension>>,

    /// With --growth: orders in the largest sale
    #[arg(long, default_value_t = 1_000_000)]
    pub growth_orders: usize,

    /// With --growth: the highest number of open activities
    #[arg(long, default_value_t = 1_000)]
    pub growth_activities: usize,

    /// Without --url: run the existing build, build nothing
    #[arg(long)]
    pub no_build: bool,

    /// Directory for `bench.json`, or for `growth.json` and an SVG for each dimension
    #[arg(long)]
    pub report: Option<PathBuf>,
}

impl Options {
    /// Rejects flags that leave nothing to measure.
    pub fn validate(&self) -> Result<()> {
        ensure!(self.seconds > 0.0 && self.rounds > 0, "--seconds and --rounds must be above 0");
        ensure!(self.reserves >= u32::from(self.connections), "--reserves must be at least --connections");
        ensure!(self.growth.is_none() || self.target.url.is_none(), "--growth starts its own app: leave out --url");
        ensure!(self.hello_path.starts_with('/'), "--hello-path must begin with /");
        Ok(())
    }
}
