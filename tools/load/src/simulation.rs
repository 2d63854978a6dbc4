//! Simulates a whole sale (G10): operator, buyers, cron and auditor in one process.
//!
//! A *visit* is one planned reservation with its own ticket. A *winner* is a buyer with an accepted order.

pub mod buyers;
pub mod context;
pub mod finish;
pub mod gate;
pub mod line;
pub mod observations;
pub mod options;
pub mod order;
pub mod page;
pub mod payment_mix;
pub mod payments;
pub mod plan;
pub mod plots;
pub mod progress;
pub mod reconcile;
pub mod report;
pub mod reserve;
pub mod run;
pub mod samples;
pub mod setup;
pub mod status_poller;
pub mod verdict;
pub mod visits;

pub use options::Options;
pub use run::run;
