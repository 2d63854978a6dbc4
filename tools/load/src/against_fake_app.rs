//! Tests against an in-memory app (G10): a correct sale passes, each violation is found, benchmarks reject errors.

mod bench;
mod fake_app;
mod sale;
