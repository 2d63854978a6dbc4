//! Interleavings: workflows run one call at a time, in every order, on a real Redis and a real ledger (I1 to I7).
//!
//! Workflows of a few calls run in pairs, in every order of their calls, each also with a death, a restart or a timeout
//! at any call. Longer ones run with others in random orders; a failure prints its seed, and `STAMPEDE_SEED` repeats it.
//! After each schedule, sweeps and providers finish what is left, and all invariants are checked.

// The clock of Redis is stopped with `LD_PRELOAD`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod invariants;
mod sale;
mod scheduler;
mod sets;
mod workflow;

use support::{fakes, fixture, stores};
