//! Counts forged tickets and tokens per client address until the next Redis call (B6).
//!
//! The counts are sent as arguments of the next script that another request runs anyway, so a flood of forged tickets
//! costs no Redis call. Counts that were not sent when the instance ends are lost: a client that sends only forged
//! tickets may never be banned, but its requests get no further than the signature check.

use std::{cell::RefCell, collections::HashMap};

use domain::ids::ActivityId;

/// Maximum number of pairs of activity and client address counted at once. When it is reached, the next count discards
/// all of them.
const MAX_ENTRIES: usize = 256;

/// Maximum number of client addresses reported in one Redis call.
const MAX_REPORTED: usize = 8;

thread_local! {
    static COUNTS: RefCell<HashMap<(ActivityId, String), i64>> = RefCell::default();
}

/// Counts one forged ticket or token for `activity` that came from the client address `ip`.
pub fn record(activity: &ActivityId, ip: String) {
    COUNTS.with_borrow_mut(|counts| {
        if counts.len() >= MAX_ENTRIES {
            counts.clear();
        }
        *counts.entry((activity.clone(), ip)).or_default() += 1;
    });
}

/// Removes and returns up to 8 client addresses with their counts for `activity`, to be sent with the next Redis call.
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
