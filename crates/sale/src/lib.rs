//! Selling: the gate, tickets, limits, reservations, and what visitors see of an activity.

pub mod admission;
pub mod gate_cache;
pub mod instance_counts;
pub mod ledger;
pub mod limits;
pub mod line;
pub mod published;
pub mod read_gate;
pub mod reserve;
pub mod scripts;
pub mod visitors;
pub mod warm_up;
