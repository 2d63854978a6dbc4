//! Operations: commands of operators, and the upkeep that cron calls.

pub mod commands;
pub mod ledger;
pub mod scripts;
pub mod upkeep;
