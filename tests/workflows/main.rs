//! Workflow tests: Lua scripts, SQL and the workflows on a real Redis, SQLite and PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod at_every_call;
mod crash;
mod crash_points;
mod deadlocks;
mod expired_keys;
mod ledger;
mod line_model;
mod model;
mod operations;
mod orders;
mod payments;
mod query_plans;
mod sale;
mod sqlstates;
mod write_locks;

use support::{fakes, fixture, stores};
