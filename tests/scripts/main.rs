//! Lua, SQL and the workflows over them, against a real Redis and both real ledgers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod admitting;
mod checkout;
mod crash;
mod crash_money;
mod deliveries;
mod dying;
mod epochs;
mod events;
mod fakes;
mod leases;
mod ledger;
mod limits;
mod locks;
mod model;
mod moves;
mod overpaid;
mod reserving;
mod restored;
mod stores;
mod waiting;
mod world;
