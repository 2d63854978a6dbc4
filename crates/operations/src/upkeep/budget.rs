//! Bounds one call of a rebuild in time, and in orders a batch.

use std::time::{Duration, Instant};

use domain::time::Millis;
use orders::order_writer::time_since;

/// How much one call does. It finishes the batch in which the time is up, and does one at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How long it begins new batches.
    pub time: Duration,
    /// Orders in one batch.
    pub batch_size: usize,
    /// How long after the call began the sweeper leaves the rebuild to its caller, in milliseconds.
    pub left_to_caller_ms: i64,
}

impl Budget {
    /// For a request, which may take 30 s on Akamai Functions. A batch takes milliseconds, and a ledger that does not
    /// answer 10 s. While Redis restores a batch (3 ms), other activities wait.
    pub const REQUEST: Self = Self { time: Duration::from_secs(5), batch_size: 200, left_to_caller_ms: 10_000 };

    /// For all rebuilds that one sweep continues.
    pub const SWEEP: Self = Self { time: Duration::from_secs(3), left_to_caller_ms: 0, ..Self::REQUEST };
}

/// Measures one call against its [`Budget`].
pub(super) struct Timer {
    began_at: Millis,
    started: Instant,
    budget: Budget,
}

impl Timer {
    pub(super) fn start(budget: Budget, now: Millis) -> Self {
        Self { began_at: now, started: Instant::now(), budget }
    }

    /// The time of the caller's clock, and the time elapsed since the call began.
    pub(super) fn now(&self) -> Millis {
        time_since(self.began_at, self.started)
    }

    pub(super) fn batch_size(&self) -> usize {
        self.budget.batch_size
    }

    pub(super) fn is_up(&self) -> bool {
        self.started.elapsed() >= self.budget.time
    }
}
