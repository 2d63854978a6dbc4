//! Measures throughput and latency, each as a ratio to a hello-world route in the same run.

pub mod closed_loop;
pub mod drain;
pub mod endurance;
pub mod growth;
pub mod options;
pub mod prepare;
pub mod report;
pub mod request_source;
pub mod rounds;
pub mod run;
pub mod server;
pub mod spawned_app;

pub use options::Options;
pub use run::run;
