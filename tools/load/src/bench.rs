//! Measures what the app can do, each thing as a ratio to hello world in the same run.

pub mod closed_loop;
pub mod drain;
pub mod endurance;
pub mod options;
pub mod own_app;
pub mod prepare;
pub mod report;
pub mod rounds;
pub mod run;
pub mod server;
pub mod supply;

pub use options::Options;
pub use run::run;
