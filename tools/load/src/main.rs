//! The `stampede` command.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use load::bench::own_app::OwnApp;
use load::{bench, simulation};
use tokio::runtime::Runtime;

/// Load for Stampede: a whole sale with a verdict, and measurements.
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
        Command::Sale(options) => sell(*options),
        Command::Bench(options) => measure(*options),
    }
}

fn sell(options: simulation::Options) -> Result<u8> {
    let directory = options.report.clone();
    let one_thread = one_thread()?;
    let report = match options.robots {
        true => one_thread.block_on(simulation::compare(&options))?,
        false => one_thread.block_on(simulation::run(options))?,
    };
    println!("{}", report.text());
    if let Some(directory) = directory {
        report.write(&directory)?;
        println!("The whole report: {} and sale.json", directory.join("sale.html").display());
    }
    Ok(report.verdict.exit_code())
}

fn measure(mut options: bench::Options) -> Result<u8> {
    options.check()?;
    let directory = options.report.clone();
    let own = if options.target.url.is_none() { Some(OwnApp::start(!options.no_build)?) } else { None };
    if let Some(own) = &own {
        own.point(&mut options.target);
    }
    let report = one_thread()?.block_on(bench::run(options, own.as_ref())).inspect_err(|_| {
        if let Some(own) = &own {
            eprintln!("{}", own.output());
        }
    })?;
    println!("{}", report.text());
    if let Some(directory) = directory {
        report.write(&directory)?;
        println!("The whole report: {}", directory.join("bench.json").display());
    }
    Ok(report.exit_code())
}

/// The app under load gets the other cores.
fn one_thread() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
