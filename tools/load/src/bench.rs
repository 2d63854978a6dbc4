//! Measures throughput and latency of each route, as a ratio to a function that does only what the route cannot avoid.

pub mod drain;
pub mod growth;
pub mod kind;
pub mod options;
mod payments;
pub mod prepare;
pub mod report;
pub mod request_source;
mod results;
pub mod rounds;
pub mod run;
pub mod server;
pub mod spawned_app;
pub mod workload;

pub use options::Options;
pub use run::run;
