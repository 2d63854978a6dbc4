//! Bad tickets and tokens (B6): counted here by address, and told to Redis with the next call that is made anyway.
//!
//! So a flood of forged tickets causes no command at all. What an instance counted and had no occasion to tell is
//! lost with it: whoever only sends forged tickets harms nobody but themselves.

use std::{cell::RefCell, collections::HashMap};

use domain::ids::ActivityId;

/// Addresses remembered at most; beyond that all are forgotten.
const MAX_ENTRIES: usize = 256;

/// Addresses told of in one call at most.
const MAX_REPORTED: usize = 8;

thread_local! {
    static COUNTS: RefCell<HashMap<(ActivityId, String), i64>> = RefCell::default();
}

/// Counts a bad ticket or token that came from `ip` for a sale.
pub fn record(activity: &ActivityId, ip: String) {
    COUNTS.with_borrow_mut(|counts| {
        if counts.len() >= MAX_ENTRIES {
            counts.clear();
        }
        *counts.entry((activity.clone(), ip)).or_default() += 1;
    });
}

/// What has been counted for a sale and not been told yet.
#[must_use]
pub fn take(activity: &ActivityId) -> Vec<(String, i64)> {
    COUNTS.with_borrow_mut(|counts| {
        if counts.is_empty() {
            return Vec::new();
        }
        let keys = counts.keys().filter(|(of, _)| of == activity).take(MAX_REPORTED).cloned().collect::<Vec<_>>();
        keys.into_iter().filter_map(|key| Some((key.1.clone(), counts.remove(&key)?))).collect()
    })
}
