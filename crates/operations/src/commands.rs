//! Commands and questions of operators: activities, bans, load shedding, figures, audits, metrics, readiness.

pub mod activities;
pub mod audit;
pub mod bans;
pub mod documents;
pub mod inbox;
pub mod metrics;
pub mod readiness;
pub mod shed;
pub mod stats;
pub mod timeline;
