//! Starts Stampede with everything it needs and supervises it. Called by `scripts/up`.

use std::process::ExitCode;

use clap::Parser;
use dev::up::{Options, run};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scripts/up: {error:#}");
            ExitCode::FAILURE
        }
    }
}
