//! What Redis holds for all activities: gate and stock loaded from the ledger, the set of gates, leases.

pub mod gates;
pub mod lease;
pub mod warm_up;
