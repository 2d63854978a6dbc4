//! Upkeep: sweeping what is due or was left by a crash, rebuilding Redis, backfilling the ledger, erasing.

pub mod backfill;
pub mod budget;
pub mod erasure;
mod found_gate;
pub mod gates;
mod lines;
pub mod passes;
pub mod rebuild;
pub mod report;
pub mod restore;
pub mod sweep;
