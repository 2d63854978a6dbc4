//! Runs the test suites. Called by `scripts/test` after everything is installed.

use std::process::ExitCode;

use clap::Parser;
use dev::suites::{Options, run};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // The count is always the last line. If nothing could be tested, that is one failure.
            eprintln!("scripts/test: {error:#}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}
