//! Bounded table of the resources that a component instance holds.

use std::collections::HashMap;

use wasmtime::component::Resource;

/// Resources by handle (the `rep` of the guest's [`Resource`]).
#[derive(Debug)]
pub struct Table<T> {
    capacity: usize,
    next: u32,
    entries: HashMap<u32, T>,
}

/// The table is full: the guest holds the maximum number of resources of this kind, as in Spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl<T> Table<T> {
    /// Creates an empty table for at most `capacity` resources.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, next: 0, entries: HashMap::new() }
    }

    /// Inserts a resource and returns its handle.
    pub fn push<R: 'static>(&mut self, value: T) -> Result<Resource<R>, TableFull> {
        if self.entries.len() >= self.capacity {
            return Err(TableFull);
        }
        while self.entries.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let key = self.next;
        self.next = self.next.wrapping_add(1);
        self.entries.insert(key, value);
        Ok(Resource::new_own(key))
    }

    /// Returns the resource of a handle.
    pub fn get<R: 'static>(&self, resource: &Resource<R>) -> Option<&T> {
        self.entries.get(&resource.rep())
    }

    /// Removes and returns a resource.
    pub fn remove<R: 'static>(&mut self, resource: &Resource<R>) -> Option<T> {
        self.entries.remove(&resource.rep())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_refuses_until_a_resource_is_removed() {
        let mut table = Table::new(1);
        let first: Resource<()> = table.push("a").unwrap();
        assert_eq!(table.push::<()>("b").unwrap_err(), TableFull);
        assert_eq!(table.remove(&first), Some("a"));
        let second: Resource<()> = table.push("b").unwrap();
        assert_ne!(first.rep(), second.rep());
        assert_eq!(table.get(&second), Some(&"b"));
    }
}
