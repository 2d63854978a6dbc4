//! Command-line flags of a sale with a line.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// The line, and who comes to it.
#[derive(clap::Args, Debug, Clone)]
pub struct LineOptions {
    /// Whether buyers may wait for units that come back
    #[arg(long = "line", value_enum, default_value = "none")]
    pub mode: LineMode,

    /// How many may wait for a SKU [default: as many as its units]
    #[arg(long)]
    pub line_units: Option<u32>,

    /// Seconds to pay a unit that was offered to the line [default: --pay-timeout]
    #[arg(long)]
    pub offer_seconds: Option<u32>,

    /// Share of those who wait who leave the line
    #[arg(long, default_value_t = 0.1)]
    pub leave_share: f64,

    /// Robots that wait, too, and refresh for units that come back
    #[arg(long, default_value_t = 0)]
    pub robots: u32,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineMode {
    None,
    Waitlist,
}

impl LineOptions {
    pub fn is_on(&self) -> bool {
        self.mode != LineMode::None
    }

    /// Rejects flags that make no valid line. The error says what to change.
    pub fn validate(&self) -> Result<()> {
        ensure!((0.0..=1.0).contains(&self.leave_share), "--leave-share is a number from 0 to 1");
        let needs_line = self.line_units.is_some() || self.offer_seconds.is_some() || self.robots > 0;
        ensure!(
            self.is_on() || !needs_line,
            "--line-units, --offer-seconds and --robots are for a sale with --line waitlist"
        );
        Ok(())
    }

    /// The member `line` of the activity; `None` without a line.
    pub fn spec(&self) -> Option<Value> {
        let mut spec = self.is_on().then(|| json!({"mode": "waitlist"}))?;
        for (name, value) in [("max_units", self.line_units), ("offer_seconds", self.offer_seconds)] {
            if let Some(value) = value {
                spec[name] = value.into();
            }
        }
        Some(spec)
    }
}
