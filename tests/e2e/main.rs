//! End-to-end tests: the app as a black box over HTTP, Redis and SQL, on either engine.
//!
//! One module per feature. Most tests share one app and create their own activities; tests that kill or reconfigure
//! something start a dedicated app.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

mod activity_lifecycle;
mod admission;
mod alerts;
mod attacks;
mod bad_input;
mod checkout;
mod closing;
mod cluster;
mod cors;
mod disputes;
mod floods;
mod fulfilment;
mod hosted_checks;
mod human_checks;
mod identity;
mod issuer_keys;
mod ledger_failover;
mod ledger_failure;
mod line;
mod load_generator;
mod metrics;
mod openapi;
mod operator_orders;
mod operators;
mod operators_desk;
#[cfg(target_os = "linux")] // Elsewhere `SSL_CERT_FILE` adds no authority.
mod payments;
mod persons;
mod presale;
mod redis_failure;
mod reserve;
mod responses;
mod round_trips;
mod start_up;
mod supervision;
mod sweeper;
mod tls;
