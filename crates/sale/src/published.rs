//! Explains from the list of published activities why one has no gate in Redis (C3).
//!
//! An activity without a gate was never published, has ended and its gate has expired, or Redis lost its data.

use std::collections::BTreeMap;

use domain::{
    http::problem::{Code, Problem},
    ids::ActivityId,
    time::Millis,
};

/// When each published activity ends; a closed one has the end time 0.
pub type EndTimes = BTreeMap<ActivityId, Millis>;

/// Returns the error for an activity that has no gate in Redis: `not_found` if it was never published, `ended` if it is
/// over at `now`, `not_ready` if Redis has not loaded it or has lost it.
#[must_use]
pub fn missing_gate_problem(published: &EndTimes, activity: &ActivityId, now: Millis) -> Problem {
    match published.get(activity) {
        None => Problem::new(Code::NotFound, "There is no such sale."),
        Some(end) if *end <= now => Problem::new(Code::Ended, "The sale has ended."),
        Some(_) => Problem::new(Code::NotReady, "The sale is not loaded, or is being restored. An operator sees why.")
            .retry_after(2),
    }
}
