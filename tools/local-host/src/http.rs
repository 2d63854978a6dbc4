//! The HTTP trigger.

mod headers;
mod message;
mod routes;
mod server;
mod worker;

pub use self::{server::Server, worker::ReuseOptions};
