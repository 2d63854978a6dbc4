//! The app from outside: HTTP, Redis and SQL, on either engine. One module for each feature.
//!
//! Most tests share one app and keep to sales of their own; what breaks things starts an app of its own.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

mod activity_lifecycle;
mod admission;
mod bad_input;
mod checkout;
mod crash;
mod human_checks;
mod identity;
mod ledger_failure;
mod payments;
mod races;
mod redis_failure;
mod reserve;
mod responses;
mod round_trips;
mod start_up;
mod supervision;
mod sweeper;
