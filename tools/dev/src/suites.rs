//! The program `suites`: builds the workspace once, runs every test suite, and counts the tests.

mod counts;
mod plan;
mod run;

pub use self::run::{Options, run};
