//! Command-line flags of `plan`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::Sale;

/// Plans the capacity for a sale: cores, Redis, PostgreSQL connections, nginx workers, and how long the queue gets.
///
/// The costs are those that scripts/bench measured, on cores such as those that it ran on. docs/performance.md has the
/// formulas. Every figure is a bound from above.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// Visitors who wait for the start, each with a ticket
    #[arg(long)]
    pub visitors: u64,

    /// Units of the SKU
    #[arg(long)]
    pub units: u64,

    /// Time over which the reservations arrive and in which all are answered, such as 3s
    #[arg(long, default_value = "3s", value_parser = parse_seconds)]
    pub within: f64,

    /// Time before the start over which the visitors fetch their tickets
    #[arg(long, default_value = "10m", value_parser = parse_seconds)]
    pub tickets_within: f64,

    /// Share of the winners who pay
    #[arg(long, default_value_t = 1.0)]
    pub pay_share: f64,

    /// Time over which they pay
    #[arg(long, default_value = "2m", value_parser = parse_seconds)]
    pub pay_within: f64,

    /// Cores of each app process's machine
    #[arg(long, default_value_t = 8)]
    pub app_cores: u16,

    /// Share of each core that is to be used; the rest is for bursts
    #[arg(long, default_value_t = 0.7)]
    pub utilisation: f64,

    /// Requests per second of one nginx worker
    #[arg(long, default_value_t = 10_000)]
    pub nginx_per_worker: u32,

    /// A CDN answers for gates and pages, and keeps the visitors' connections
    #[arg(long)]
    pub cdn: bool,

    /// The `bench.json` with the costs [default: docs/bench.json of this build]
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

impl Options {
    /// The sale that the flags describe.
    pub fn sale(&self) -> Result<Sale> {
        ensure!(self.visitors > 0 && self.units > 0, "--visitors and --units must be above 0");
        ensure!(0.0 < self.utilisation && self.utilisation <= 1.0, "--utilisation must be above 0 and at most 1");
        ensure!((0.0..=1.0).contains(&self.pay_share), "--pay-share must be 0 to 1");
        ensure!(self.app_cores > 0 && self.nginx_per_worker > 0, "--app-cores and --nginx-per-worker must be above 0");
        Ok(Sale {
            visitors: self.visitors as f64,
            units: self.units as f64,
            within: self.within,
            tickets_within: self.tickets_within,
            pay_share: self.pay_share,
            pay_within: self.pay_within,
            app_cores: f64::from(self.app_cores),
            utilisation: self.utilisation,
            nginx_per_worker: f64::from(self.nginx_per_worker),
            cdn: self.cdn,
        })
    }
}

/// Parses `500ms`, `3s`, `10m` or `1h` to seconds.
fn parse_seconds(text: &str) -> Result<f64> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[number.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => anyhow::bail!("{unit} is no unit of time: use ms, s, m or h"),
    };
    let seconds = number.parse::<f64>().context("not a time such as 3s or 10m")? * factor;
    ensure!(seconds > 0.0 && seconds.is_finite(), "a time must be above 0");
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("500ms", 0.5), ("3s", 3.0), ("3", 3.0), ("10m", 600.0), ("1.5h", 5400.0)] {
            assert_eq!(parse_seconds(text).unwrap(), seconds);
        }
        for wrong in ["", "s", "3d", "0s", "-1s", "inf"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
