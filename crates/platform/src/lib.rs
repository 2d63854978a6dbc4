//! Spin, as the functions see it: HTTP, Redis, the ledger, key-value, variables, the clock and the log.
//!
//! **Invariant:** every response leaves through [`http::serve`], the only place that knows how to send one well.

pub mod abuse;
pub mod alarm;
pub mod auth;
pub mod client;
pub mod clock;
pub mod config;
pub mod http;
pub mod ledger;
pub mod limits;
pub mod log;
pub mod memory;
pub mod once;
pub mod patience;
pub mod provider;
pub mod published;
pub mod redis;
pub mod sales;
pub mod store;
pub mod vault;
pub mod web;
