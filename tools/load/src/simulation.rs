//! A whole sale: operator, crowd, winners, cron and auditor in one process.

pub mod buyers;
pub mod compare;
pub mod context;
pub mod gate;
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
pub mod robots;
pub mod run;
pub mod samples;
pub mod settle;
pub mod setup;
pub mod verdict;
pub mod visits;

pub use compare::compare;
pub use options::Options;
pub use run::run;
