//! The ledger: what is true when everything else is gone.

pub mod activities;
pub mod addresses;
pub mod backlog;
pub mod epochs;
pub mod events;
pub mod leases;
pub mod orders;
pub mod payments;
pub mod refunds;
pub mod row_reader;
pub mod schema;
pub mod sessions;
pub mod switches;
