//! What the slices share of the stores: ports, script loader, replies, leases, schema, shared copies.
//!
//! Every workflow reaches the outside through the traits of [`ports`] and [`http_client`], so the same code runs inside
//! Spin and in tests against real servers. Functions return [`StoreError`]; its variants say what each failure means to
//! the caller.

pub mod counts;
pub mod http_client;
pub mod keys;
pub mod lease;
pub mod ledger;
pub mod lua;
pub mod ports;
mod problem;
pub mod recent;
pub mod reply;
pub mod script;
pub mod shared_value;
pub mod single_flight;
pub mod ttl;

pub use ports::{Redis, Sql, StoreError};
