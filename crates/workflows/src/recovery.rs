//! Recovery: sweeping what time or a crash left behind, rebuilding Redis, backfilling the ledger.

pub mod backfill;
pub mod rebuild;
pub mod sweep;
