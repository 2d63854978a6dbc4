//! What operators do: activities, bans, shedding load, audits.

pub mod activities;
pub mod audit;
pub mod bans;
pub mod shed;
