//! Against a shop in memory: an honest sale passes, each kind of cheat is caught on its line, benchmarks count no errors.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bench;
mod fake_app;
mod sale;
