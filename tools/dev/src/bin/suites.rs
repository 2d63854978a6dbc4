//! Runs the test suites: what `scripts/test` runs once everything is installed.

use std::process::ExitCode;

use clap::Parser;
use dev::suites::{Options, run};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // The count is the last line whatever happens: nothing was tested, and that is a failure.
            eprintln!("scripts/test: {error:#}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}
