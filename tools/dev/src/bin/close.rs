//! Closes a sale, or reconciles its books. Called by `scripts/close` and `scripts/reconcile`.

use std::process::ExitCode;

use clap::Parser;
use dev::closing::{self, Options};

/// Exit status: 0 if nothing is open or differs, 1 if something is, 2 if that could not be told.
#[derive(Parser)]
enum Command {
    /// Runs the closing list of a sale: says `closed`, or what is open, each with the command that shows it.
    Close(Options),
    /// Compares the books of a sale with the provider's reports.
    Reconcile(Options),
}

fn main() -> ExitCode {
    let done = match &Command::parse() {
        Command::Close(options) => closing::run_close(options),
        Command::Reconcile(options) => closing::run_reconcile(options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}
