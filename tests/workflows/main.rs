//! Lua, SQL and the workflows over them, against a real Redis and both real ledgers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod admitting;
mod between;
mod bounced;
mod checkout;
mod crash;
mod crash_money;
mod deliveries;
mod dying;
mod epochs;
mod events;
mod fakes;
mod given_back;
mod leases;
mod ledger;
mod leftovers;
mod letters;
mod limits;
mod locks;
mod lost_moves;
mod lost_payments;
mod model;
mod moves;
mod operators;
mod overpaid;
mod reserving;
mod restored;
mod shedding;
mod stores;
mod waiting;
mod world;
