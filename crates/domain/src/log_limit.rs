//! Bounds the log lines that any client can cause.

use std::cell::Cell;

use crate::time::Millis;

/// Counts an event, and says when to log it: at most once in an interval.
pub struct LogLimit {
    interval_ms: i64,
    /// When the last line was logged, and the events since then.
    state: Cell<(Option<Millis>, u64)>,
}

impl LogLimit {
    /// A limit of one line in this many milliseconds.
    #[must_use]
    pub const fn new(interval_ms: i64) -> Self {
        Self { interval_ms, state: Cell::new((None, 0)) }
    }

    /// Counts an event. Returns the number of events since the last line, this one too, if a line is due.
    pub fn count(&self, now: Millis) -> Option<u64> {
        let (logged_at, number) = self.state.get();
        let is_due = logged_at.is_none_or(|at| !(0..self.interval_ms).contains(&(now.0 - at.0)));
        self.state.set(if is_due { (Some(now), 0) } else { (logged_at, number + 1) });
        is_due.then_some(number + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_in_the_interval_and_has_the_number_of_events_since_the_last_one() {
        let limit = LogLimit::new(1_000);
        let due = [5_000, 5_001, 5_999, 6_000, 6_500, 9_000, 2_000].map(|now| limit.count(Millis(now)));
        assert_eq!(due, [Some(1), None, None, Some(3), None, Some(2), Some(1)], "the last one: the clock went back");
    }
}
