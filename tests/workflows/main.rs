//! Workflow tests: Lua scripts, SQL and the workflows on a real Redis, SQLite and PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod admission;
mod at_every_call;
mod backlog;
mod bounced_refunds;
mod checkout;
mod crash;
mod crash_payments;
mod crash_points;
mod dead_letters;
mod deadlocks;
mod deliveries;
mod doorbell;
mod epochs;
mod erasure;
mod events;
mod expired_keys;
mod leases;
mod ledger;
mod limits;
mod load_shedding;
mod lost_payments;
mod lost_second;
mod lost_transitions;
mod manual_refunds;
mod model;
mod operators;
mod order_list;
mod overpayments;
mod payment_service;
mod query_plans;
mod rebuilds;
mod refunds_at_provider;
mod reserve;
mod restored_ledger;
mod slow_callbacks;
mod slow_sweeps;
mod sqlstates;
mod statistics;
mod strikes;
mod stuck_activities;
mod sweeps;
mod transitions;
mod write_locks;

use support::{fakes, fixture, stores};
