//! Rust bindings for Spin's interfaces, generated from the WIT files of `spin-sdk` (see `build.rs`).

#![allow(missing_docs, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

pub use exports::spin::redis::inbound_redis;
pub use spin::{key_value::key_value, postgres::postgres, redis::redis, sqlite::sqlite, variables::variables};
