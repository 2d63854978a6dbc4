//! A bounded map of what an instance remembers by key.

use std::{collections::HashMap, hash::Hash, rc::Rc};

/// Values by key. A new key replaces the least recently used one of `MAX`; a value that a request uses stays.
pub struct LruMap<K, V, const MAX: usize = 256> {
    /// The values, each with the number of its last use.
    values: HashMap<K, (u64, Rc<V>)>,
    uses: u64,
}

impl<K, V, const MAX: usize> Default for LruMap<K, V, MAX> {
    fn default() -> Self {
        Self { values: HashMap::new(), uses: 0 }
    }
}

impl<K: Eq + Hash + Clone, V: Default, const MAX: usize> LruMap<K, V, MAX> {
    /// Returns the value of `key`, an empty one if there is none.
    pub fn get(&mut self, key: &K) -> Rc<V> {
        self.uses += 1;
        if let Some((last_use, value)) = self.values.get_mut(key) {
            *last_use = self.uses;
            return value.clone();
        }
        if self.values.len() >= MAX {
            let unused = self.values.iter().filter(|(_, (_, value))| Rc::strong_count(value) == 1);
            if let Some(oldest) = unused.min_by_key(|(_, (last_use, _))| *last_use).map(|(key, _)| key.clone()) {
                self.values.remove(&oldest);
            }
        }
        self.values.entry(key.clone()).or_insert((self.uses, Rc::default())).1.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_new_key_replaces_the_least_recently_used_one_that_no_request_uses() {
        let mut map = LruMap::<_, Cell<i32>, 3>::default();
        let in_use = map.get(&0);
        in_use.set(1);
        for key in 1..100 {
            map.get(&key).set(1);
            assert_eq!(map.get(&1).get(), 1);
            assert!(map.values.len() <= 3);
        }
        assert_eq!([0, 1, 99, 98].map(|key| map.get(&key).get()), [1, 1, 1, 0]);
    }
}
