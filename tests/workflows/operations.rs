//! Tests of the slice `operations`: commands of operators, sweeps, rebuilds, erasure.

pub mod backlog;
pub mod connections;
pub mod drafts;
pub mod epochs;
pub mod erasure;
pub mod history;
pub mod inbox;
pub mod leases;
pub mod load_shedding;
pub mod lost_transitions;
pub mod operators;
pub mod persons;
pub mod rebuilds;
pub mod rehearsals;
pub mod restored_ledger;
pub mod revenue;
pub mod sale_events;
pub mod slow_sweeps;
pub mod statistics;
pub mod stuck_activities;
pub mod sweeps;
