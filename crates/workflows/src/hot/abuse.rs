//! Counts forged tickets and tokens per client address until the next Redis call (B6).
//!
//! The counts are sent as arguments of the next script that another request runs anyway, so a flood of forged tickets
//! costs no Redis call. Counts that were not sent when the instance ends are lost: a client that sends only forged
//! tickets may never be banned, but its requests get no further than the signature check.

use std::collections::HashMap;

use domain::ids::ActivityId;

/// Maximum number of pairs of activity and client address counted at once. When it is reached, the next count discards
/// all of them.
const MAX_ENTRIES: usize = 256;

/// Maximum number of client addresses reported in one Redis call.
const MAX_REPORTED: usize = 8;

/// The counts of one instance.
#[derive(Debug, Default)]
pub struct AbuseCounts(HashMap<(ActivityId, String), i64>);

impl AbuseCounts {
    /// Counts one forged ticket or token for `activity` that came from the client address `ip`.
    pub fn record(&mut self, activity: &ActivityId, ip: String) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        *self.0.entry((activity.clone(), ip)).or_default() += 1;
    }

    /// Removes and returns up to 8 client addresses with their counts for `activity`, to be sent with the next Redis
    /// call.
    pub fn take(&mut self, activity: &ActivityId) -> Vec<(String, i64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let keys = self.0.keys().filter(|(of, _)| of == activity).take(MAX_REPORTED).cloned().collect::<Vec<_>>();
        keys.into_iter().filter_map(|key| Some((key.1.clone(), self.0.remove(&key)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ActivityId {
        ActivityId::parse(text).expect("id")
    }

    #[test]
    fn counts_are_taken_once_and_for_one_activity() {
        let (mut counts, sale, other) = (AbuseCounts::default(), id("sale"), id("other"));
        counts.record(&sale, "192.0.2.1".to_owned());
        counts.record(&sale, "192.0.2.1".to_owned());
        counts.record(&other, "192.0.2.1".to_owned());
        assert_eq!(counts.take(&sale), [("192.0.2.1".to_owned(), 2)]);
        assert_eq!(counts.take(&sale), []);
        assert_eq!(counts.take(&other), [("192.0.2.1".to_owned(), 1)]);
    }

    #[test]
    fn one_call_reports_eight_addresses_and_the_next_ones_the_rest() {
        let (mut counts, sale) = (AbuseCounts::default(), id("sale"));
        (0..20).for_each(|n| counts.record(&sale, format!("192.0.2.{n}")));
        let taken: Vec<_> = (0..4).map(|_| counts.take(&sale).len()).collect();
        assert_eq!(taken, [8, 8, 4, 0]);
    }

    #[test]
    fn counts_are_bounded() {
        let mut counts = AbuseCounts::default();
        for n in 0..10 * MAX_ENTRIES {
            counts.record(&id("sale"), n.to_string());
            assert!(counts.0.len() <= MAX_ENTRIES);
        }
    }
}
