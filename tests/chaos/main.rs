//! What dies, jumps and lies while a sale runs: afterwards every promise still holds (D3, D4, D8, G5; I1–I4, I6, I7).
//!
//! The quick rounds run by default, the long ones with `scripts/test --long chaos`. Every round prints its seed;
//! `STAMPEDE_SEED` runs that one alone. Stream deliveries that come twice, late and out of order are in the suite
//! `scripts`, where they can be made to.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

mod clock;
mod kills;
mod replicas;
