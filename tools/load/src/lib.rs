//! The load generator: `sale` drives a whole sale black-box and judges it, `bench` measures.
//!
//! Both know the app by its HTTP contract alone and share no code with it,
//! so that a mistake in the app's own types cannot hide here too.

pub mod app;
pub mod bench;
pub mod http;
pub mod identity;
pub mod meter;
pub mod simulation;
pub mod table;
pub mod target;
pub mod wire;
