//! Measures throughput and latency of each route, as a ratio to a function that does only what the route cannot avoid.

mod calls;
mod context;
mod dimension;
mod growth;
pub mod kind;
mod options;
pub mod report;
mod requests;
pub mod results;
mod rounds;
mod run;
mod sale;
mod server;
pub mod spawned_app;
mod workload;

pub use options::Options;
pub use run::run;
