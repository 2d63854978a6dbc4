//! `suites`: builds once, runs every test suite, and counts.

mod counts;
mod plan;
mod run;
mod workspace;

pub use self::run::{Options, run};
