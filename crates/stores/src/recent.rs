//! Remembers what Redis answered a moment ago, so that an instance repeats the answer without a call: who is banned
//! (B6), which orders do not exist (D5).

use std::{collections::HashMap, hash::Hash};

use domain::time::Millis;

use crate::ttl::is_usable;

/// Maximum number of entries. When it is reached, the next one discards all of them.
const MAX_ENTRIES: usize = 1_024;

/// The keys of which an answer was true, for less than a second.
#[derive(Debug)]
pub struct Recent<K>(HashMap<K, Millis>);

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Recent<K> {
    /// Records that the answer was true of `key` at `now`.
    pub fn record(&mut self, key: K, now: Millis) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        self.0.insert(key, now);
    }

    /// Whether the answer was true of `key` less than a second before `now`.
    #[must_use]
    pub fn contains(&self, key: &K, now: Millis) -> bool {
        self.0.get(key).is_some_and(|at| is_usable(*at, now, false))
    }

    /// Whether nothing is remembered, so that the key need not be computed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_remembered_for_less_than_a_second_and_of_its_key_only() {
        let mut recent = Recent::default();
        assert!(recent.is_empty());
        recent.record("eve", Millis(5_000));
        let times = [4_999, 5_000, 5_900, 5_901];
        assert_eq!(times.map(|now| recent.contains(&"eve", Millis(now))), [false, true, true, false]);
        assert!(!recent.contains(&"ada", Millis(5_000)));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut recent = Recent::default();
        for n in 0..10 * MAX_ENTRIES {
            recent.record(n, Millis(0));
            assert!(recent.0.len() <= MAX_ENTRIES);
        }
    }
}
