//! The ledger: what is true when everything else is gone.

pub mod activities;
pub mod orders;
pub mod payments;
pub mod rows;
pub mod schema;
