//! A whole sale: operator, crowd, winners, cron and auditor in one process.

pub mod books;
pub mod buyers;
pub mod compare;
pub mod evidence;
pub mod gate;
pub mod manners;
pub mod options;
pub mod order;
pub mod page;
pub mod paying;
pub mod plan;
pub mod plots;
pub mod progress;
pub mod report;
pub mod reserve;
pub mod robots;
pub mod run;
pub mod rush;
pub mod samples;
pub mod session;
pub mod settle;
pub mod setup;
pub mod verdict;

pub use compare::compare;
pub use options::Options;
pub use run::run;
