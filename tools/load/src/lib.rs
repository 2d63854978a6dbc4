//! Load generator: `sale` simulates and checks a whole sale, `bench` measures.
//!
//! Both use only the app's HTTP contract and share no code with the app, so that a mistake in the app's own types does
//! not go unnoticed here.

pub mod app;
pub mod bench;
pub mod http;
pub mod identity;
pub mod meter;
pub mod simulation;
pub mod statistics;
pub mod table;
pub mod target;
pub mod wire;
