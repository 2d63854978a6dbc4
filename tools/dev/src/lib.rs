//! Starts the app the way people and tests need it: an engine, a Redis, secrets, directories of its own.
//!
//! `up` is what a developer runs, `with-app` gives any command an app of its own, `suites` runs every test, and the
//! end-to-end tests use the library. Everything that is started ends with whoever started it, however that ends.

pub mod akamai;
pub mod app;
pub mod build;
pub mod engine;
pub mod http;
pub mod manifest;
pub mod nginx;
pub mod open_files;
pub mod poll;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod root;
pub mod suites;
pub mod temp_dir;
pub mod test_stack;
pub mod up;
pub mod variables;
