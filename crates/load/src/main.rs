//! The `stampede` command.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use stampede_load::{bench, sale};

/// Load for Stampede: a whole sale with a verdict, and measurements.
#[derive(Parser)]
#[command(name = "stampede", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Sale(Box<sale::Options>),
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

/// One thread: the app under load gets the other cores.
fn run(cli: Cli) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Sale(options) => {
                let directory = options.report.clone();
                let report = sale::run(*options).await?;
                println!("{}", report.text());
                if let Some(directory) = directory {
                    report.write(&directory)?;
                    println!("The whole report: {}", directory.join("sale.json").display());
                }
                Ok(report.verdict.exit_code())
            }
            Command::Bench(options) => {
                let directory = options.report.clone();
                let report = bench::run(*options).await?;
                println!("{}", report.text());
                if let Some(directory) = directory {
                    report.write(&directory)?;
                    println!("The whole report: {}", directory.join("bench.json").display());
                }
                Ok(report.exit_code())
            }
        }
    })
}
