//! Operations of operators: activities, bans, load shedding, audits.

pub mod activities;
pub mod audit;
pub mod bans;
pub mod documents;
pub mod metrics;
pub mod readiness;
pub mod shed;
pub mod stats;
