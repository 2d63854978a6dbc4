//! The kits of `deploy/`, as far as one machine can try them (G9): nginx before the app, systemd's units, the manifest
//! for Akamai Functions, SpinKube's resources.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

mod akamai;
mod behind_nginx;
mod caching;
mod fake_app;
mod nginx_limits;
mod spinkube;
mod systemd_units;
mod tls;
