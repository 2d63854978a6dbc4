//! Load generator: `sale` simulates and checks a whole sale, `rehearse` checks an installation, `bench` measures, `plan`
//! computes the capacity for a sale.
//!
//! It shares no code with the app, so that a mistake in the app's own types is noticed here, and uses the app's HTTP
//! contract; `bench` also pauses the order writer, if it started the app itself.

#[cfg(test)]
mod against_fake_app;
mod app;
mod bench;
mod capacity;
mod http;
mod meter;
mod plot;
mod rehearsal;
mod sign_in;
mod simulation;
mod statistics;
mod table;
mod target;
mod wire;

use std::process::ExitCode;

use anyhow::Result;
use bench::{report::Report, spawned_app::SpawnedApp};
use capacity::Costs;
use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

/// Load generator for Stampede: simulates and checks a whole sale, or measures an app.
#[derive(Parser)]
#[command(name = "stampede", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Sale(Box<simulation::Options>),
    Bench(Box<bench::Options>),
    Plan(capacity::Sale),
    Rehearse(Box<rehearsal::Options>),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("stampede: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> Result<u8> {
    match cli.command {
        Command::Sale(options) => run_sale(*options),
        Command::Bench(options) => run_bench(&options),
        Command::Plan(options) => run_plan(&options),
        Command::Rehearse(options) => single_threaded_runtime()?.block_on(rehearsal::run(*options)),
    }
}

fn run_sale(options: simulation::Options) -> Result<u8> {
    let directory = options.report.clone();
    let report = single_threaded_runtime()?.block_on(simulation::run(options))?;
    println!("{}", report.text());
    if let Some(directory) = directory {
        simulation::page::write(&report, &directory)?;
        println!("The whole report: {} and sale.json", directory.join("sale.html").display());
    }
    Ok(report.verdict.exit_code())
}

fn run_bench(options: &bench::Options) -> Result<u8> {
    options.validate()?;
    let baseline = options.baseline.as_deref().map(Report::read).transpose()?;
    let spawned_app = if options.target.url.is_none() { Some(SpawnedApp::start()?) } else { None };
    let (target, floors) = match &spawned_app {
        Some(app) => (app.target(), Some(app.floors_url())),
        None => (options.target.resolve()?, options.floors.as_deref()),
    };
    let bench = bench::run(options, target, floors, spawned_app.as_ref());
    let report = single_threaded_runtime()?.block_on(bench).inspect_err(|_| {
        if let Some(app) = &spawned_app {
            eprintln!("{}", app.output());
        }
    })?;
    println!("{}", report.text(baseline.as_ref()));
    if let Some(directory) = &options.report {
        report.write(directory)?;
        println!("The whole report: {} and pictures", directory.join("bench.json").display());
    }
    Ok(report.exit_code())
}

fn run_plan(sale: &capacity::Sale) -> Result<u8> {
    let costs = Costs::read(sale.from.as_deref())?;
    println!("{}", capacity::plan(sale, &costs).text(sale, &costs));
    Ok(0)
}

/// One thread for this program leaves the other cores to the app under test.
fn single_threaded_runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
