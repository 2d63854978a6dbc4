//! The line of an activity: who waits for a unit that comes back (H1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest [`Line::max_units`].
pub const MAX_LINE_UNITS: i64 = 100_000;

/// What happens to a buyer who comes when nothing is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum LineMode {
    /// They hear `sold_out`.
    #[default]
    None,
    /// They may wait, each for one unit: what comes back is offered to them in their order.
    Waitlist,
}

/// The line of an activity. A SKU without a limit of units has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Line {
    /// Whether there is one. It cannot be switched off while anybody waits.
    #[serde(default)]
    pub mode: LineMode,
    /// How many may wait for a SKU; by default as many as its total, at most 100,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LINE_UNITS))]
    pub max_units: Option<i64>,
    /// Seconds that a buyer has to pay a unit that was offered; by default `pay_timeout_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub offer_seconds: Option<i64>,
}

impl Line {
    /// Whether it is the default: no line.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How many may wait for a SKU with this total; 0 without a line.
    #[must_use]
    pub fn max_units(&self, total: i64) -> i64 {
        match self.mode {
            LineMode::Waitlist if total >= 0 => self.max_units.unwrap_or_else(|| total.min(MAX_LINE_UNITS)),
            _ => 0,
        }
    }
}
