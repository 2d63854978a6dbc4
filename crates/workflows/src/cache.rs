//! What Redis holds for all activities: gate and stock loaded from the ledger, the set of gates, leases.

pub mod lease;
pub mod listed_activities;
pub mod warm_up;
