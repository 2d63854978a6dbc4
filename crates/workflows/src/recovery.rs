//! Recovery: sweeping what is due or was left by a crash, rebuilding Redis, backfilling the ledger.

pub mod backfill;
pub mod rebuild;
pub mod sweep;
