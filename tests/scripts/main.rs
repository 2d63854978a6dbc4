//! Lua, SQL and the workflows over them, against a real Redis and both real ledgers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod crash;
mod ledger;
mod model;
mod moves;
mod reserving;
mod stores;
mod world;
