//! Chaos tests: kill processes, fail Redis over and move the clock while buyers order and pay, then check the invariants
//! (D3, D4, D8, G5, G16; I1, I2, I3, I4, I6, I7).
//!
//! The short rounds run by default, the long ones with `scripts/test --long chaos`. Every round of `kills` prints its
//! seed; `STAMPEDE_SEED` repeats a single round. Duplicated, late and reordered stream messages are tested in the suite
//! `workflows`, which can produce them on purpose.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

mod aof;
mod clock;
mod cluster;
mod kills;
mod line;
mod lost_writes;
mod postgres_failover;
#[cfg(target_os = "linux")]
mod redis_failover;
mod replicas;
#[cfg(target_os = "linux")]
mod restore;
