//! How a sale runs: reserving, writing, settling, sweeping.
//!
//! Everything goes through two ports, [`ports::Redis`] and [`ports::Sql`], so that the same code runs inside Spin and
//! in tests against real servers. Redis decides (`lua/`), the ledger remembers (`sql/`).

pub mod asking;
pub mod audit;
pub mod bans;
pub mod callbacks;
pub mod checkout;
pub mod dead;
pub mod events;
pub mod hot;
pub mod keys;
pub mod ledger;
pub mod money;
pub mod operate;
pub mod ports;
pub mod preheat;
pub mod provider;
pub mod rebuild;
pub mod refunding;
pub mod reply;
pub mod salvage;
pub mod script;
pub mod settle;
pub mod shed;
pub mod stream;
pub mod sweep;
pub mod web;
pub mod write;

pub use ports::{Redis, Sql, StoreError};

/// The Redis channel of the doorbell.
pub const DOORBELL: &str = "stampede:doorbell";

/// The stream group of the order writers.
pub const WRITERS: &str = "writers";
