//! How a sale runs: reserving, writing, settling, sweeping.
//!
//! Everything goes through two ports, [`ports::Redis`] and [`ports::Sql`], so that the same code runs inside Spin and
//! in tests against real servers. Redis decides (`lua/`), the ledger remembers (`sql/`).

pub mod cache;
pub mod hot;
pub mod http_client;
pub mod keys;
pub mod ledger;
pub mod operator;
pub mod payments;
pub mod ports;
pub mod queue;
pub mod recovery;
pub mod reply;
pub mod script;
pub mod settle;

pub use ports::{Redis, Sql, StoreError};

/// The Redis channel of the doorbell.
pub const DOORBELL_CHANNEL: &str = "stampede:doorbell";

/// The stream group of the order writers.
pub const WRITER_GROUP: &str = "writers";
