//! Tests of the deployment kits in `deploy/`, as far as one machine can run them (G9).
//!
//! nginx in front of the app, the systemd units, the manifest for Akamai Functions, and the SpinKube resources.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

mod akamai;
mod behind_nginx;
mod caching;
mod cors;
mod failover;
mod fake_app;
mod install;
mod monitoring;
mod nginx_limits;
mod nginx_requests;
mod nginx_routes;
mod rehearsal;
mod release;
mod run_a_sale;
mod spinkube;
mod systemd_units;
mod tls;
