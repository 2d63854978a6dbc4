//! The instance's [`AbuseCounts`] (B6).

use std::cell::RefCell;

use domain::ids::ActivityId;
use workflows::hot::abuse::AbuseCounts;

thread_local! {
    static COUNTS: RefCell<AbuseCounts> = RefCell::default();
}

/// See [`AbuseCounts::record`].
pub fn record(activity: &ActivityId, ip: String) {
    COUNTS.with_borrow_mut(|counts| counts.record(activity, ip));
}

/// See [`AbuseCounts::take`].
#[must_use]
pub fn take(activity: &ActivityId) -> Vec<(String, i64)> {
    COUNTS.with_borrow_mut(|counts| counts.take(activity))
}
