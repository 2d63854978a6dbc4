//! SQL of this slice. [`stores::ledger`] says what the errors mean.

pub mod backlog;
pub mod history;
pub mod operator_changes;
pub mod order_times;
pub mod persons;
pub mod rebuilds;
pub mod sale_states;
pub mod sales;
