//! SQL of this slice. [`stores::ledger`] says what the errors mean.

pub mod events;
pub mod line_entries;
pub mod order_changes;
pub mod order_rows;
pub mod order_search;
pub mod unsynced;
