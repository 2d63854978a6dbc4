//! Starts the app and its servers for development and tests.
//!
//! `up` runs everything for a developer, `with-app` runs a command with its own app, `suites` runs every test, and the
//! end-to-end tests use this library. Every process that is started ends with the process that started it, even if that
//! is killed.

pub mod akamai;
pub mod app;
pub mod closing;
pub mod documents;
pub mod engine;
pub mod http;
pub mod manifest;
pub mod nginx;
pub mod open_files;
pub mod poll;
pub mod ports;
pub mod postgres;
pub mod private_data;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod root;
pub mod suites;
pub mod test_stack;
pub mod up;
pub mod variables;
