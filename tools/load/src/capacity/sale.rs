//! The sale to plan for, from the command-line flags of `plan`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Plans the capacity for a sale: cores, Redis and its memory, PostgreSQL connections, nginx workers, and the queue.
///
/// The costs are those that scripts/bench measured, on cores such as those that it ran on. Every figure is a bound from
/// above.
#[derive(clap::Args, Debug, Clone)]
pub struct Sale {
    /// Visitors who wait for the start, each with a ticket
    #[arg(long, value_parser = parse_positive)]
    pub visitors: f64,

    /// Units of the SKU
    #[arg(long, value_parser = parse_positive)]
    pub units: f64,

    /// Time over which the reservations arrive and in which all are answered, such as 3s
    #[arg(long, default_value = "3s", value_parser = parse_seconds)]
    pub within: f64,

    /// Time before the start over which the visitors fetch their tickets
    #[arg(long, default_value = "10m", value_parser = parse_seconds)]
    pub tickets_within: f64,

    /// Share of the winners who pay
    #[arg(long, default_value = "1", value_parser = parse_share)]
    pub pay_share: f64,

    /// Time over which they pay
    #[arg(long, default_value = "2m", value_parser = parse_seconds)]
    pub pay_within: f64,

    /// Cores of each app process's machine
    #[arg(long, default_value = "8", value_parser = parse_positive)]
    pub app_cores: f64,

    /// Share of each core that is to be used; the rest is for bursts
    #[arg(long, default_value = "0.7", value_parser = parse_share)]
    pub utilisation: f64,

    /// Requests per second that one nginx worker passes on
    #[arg(long, default_value = "10000", value_parser = parse_positive)]
    pub nginx_per_worker: f64,

    /// A CDN answers for gates and pages, and keeps the visitors' connections
    #[arg(long)]
    pub cdn: bool,

    /// The `bench.json` with the costs [default: docs/bench.json of this build]
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

fn parse_positive(text: &str) -> Result<f64> {
    let number: f64 = text.parse().context("not a number")?;
    ensure!(number > 0.0 && number.is_finite(), "must be above 0");
    Ok(number)
}

fn parse_share(text: &str) -> Result<f64> {
    let share = parse_positive(text)?;
    ensure!(share <= 1.0, "must be at most 1");
    Ok(share)
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
    Ok(parse_positive(number)? * factor)
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
