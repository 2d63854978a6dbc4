//! Measures what share of a sale a farm of scalpers gets against honest buyers, for each human check (B5).
//!
//! The farm knows the source and has a budget: accounts, addresses, processor time, a solver of pictures, and hosted
//! checks that it buys. It sends its reservations the moment the gate opens. Honest buyers have a ticket and an address
//! each, and react as people do.

mod options;
mod report;
mod sale;
mod siteverify;
mod solver;

use anyhow::Result;
use dev::engine::Engine;
use dev::test_stack::TestStack;
use dev::{build, root};
use indicatif::ProgressBar;

pub use options::Options;
use report::Row;
use sale::Check;

/// Runs every sale against an app of its own. Returns the table.
pub async fn run(options: &Options) -> Result<String> {
    options.validate()?;
    if !options.no_build {
        let root = root::find()?;
        build::all(&root, &Engine::discover(None)?)?;
    }
    let provider = siteverify::start().await?;
    let mut app = TestStack::start(|variables| {
        variables.set("trusted_hops", "1");
        provider.configure(variables);
    })?;
    app.wait_until_ready()?;
    let bar = ProgressBar::new(Check::ALL.len() as u64 * 2 * u64::from(options.rounds));
    let mut rows = Vec::new();
    for (name, check) in Check::ALL {
        for per_address in [None, Some(options.per_address)] {
            let mut results = Vec::new();
            for _ in 0..options.rounds {
                results.push(sale::run(&app, options, check, per_address).await?);
                bar.inc(1);
            }
            rows.push(Row { check: name, per_address, results });
        }
    }
    bar.finish_and_clear();
    Ok(report::table(options, &rows))
}
