//! The state of an activity, and the phase that visitors see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Millis;

crate::words! {
    /// What operators decided about an activity.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ActivityState {
        /// Not published; only operators see it.
        Draft = "draft",
        /// Published.
        Published = "published",
        /// Paused by an operator.
        Paused = "paused",
        /// Closed permanently.
        Closed = "closed",
    }
}

impl ActivityState {
    /// The phase that visitors see at `now`.
    #[must_use]
    pub fn phase(self, now: Millis, starts_at: Millis, ends_at: Millis) -> Phase {
        if self == ActivityState::Closed || now >= ends_at {
            Phase::Ended
        } else if self == ActivityState::Paused {
            Phase::Paused
        } else if now < starts_at {
            Phase::Scheduled
        } else {
            Phase::Open
        }
    }
}

/// The phase of an activity, as visitors see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the start.
    Scheduled,
    /// Reservations are accepted.
    Open,
    /// Paused by an operator.
    Paused,
    /// Past its end, or closed.
    Ended,
}
