//! The HTTP trigger.

mod headers;
mod routes;
mod server;
mod worker;

pub use self::{server::Server, worker::ReuseOptions};
