//! Load generator: `sale` simulates and checks a whole sale, `bench` measures.
//!
//! Shares no code with the app, so that a mistake in the app's own types is noticed here. Both use the app's HTTP
//! contract; `bench` also pauses the order writer and reads Redis' memory use, if it started the app itself, and
//! `bench --growth` fills sales with the app's own workflow.

pub mod app;
pub mod bench;
pub mod http;
pub mod identity;
pub mod meter;
pub mod plot;
pub mod simulation;
pub mod statistics;
pub mod table;
pub mod target;
pub mod wire;
