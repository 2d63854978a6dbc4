//! Requests, responses, routes and refusals, without I/O.

pub mod body;
pub mod cors;
pub mod problem;
pub mod request;
pub mod response;
pub mod routes;
