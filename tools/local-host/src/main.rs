//! `local-host`: runs a Spin application where the `spin` command is not installed.
//!
//! It runs the same `spin.toml` and the same components as Spin 4.1, and has what this project uses of Spin: behaviour that
//! the application can observe is the same, and anything else is an error.

mod assets;
mod bindings;
mod calls;
mod cli;
mod component;
mod connection_limit;
mod engine;
mod hosts;
mod http;
mod logging;
mod manifest;
mod outbound;
mod redis_trigger;
mod runtime_config;
mod shutdown;
mod state;
mod stdio;
mod stores;
mod supervise;
mod table;
mod trigger;
mod variables;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Up(up) = Cli::parse().command;
    logging::init();
    // An error means that a provider is already installed. Only one is compiled in, so it is this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let result = match (up.trigger, &up.working_dir) {
        (Some(kind), Some(assets)) => trigger::run(&up, kind, assets).await.map(|()| ExitCode::SUCCESS),
        _ => supervise::run(&up).await,
    };
    result.unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        for (index, cause) in error.chain().skip(1).enumerate() {
            if index == 0 {
                eprintln!("\nCaused by:");
            }
            eprintln!("{index:>4}: {cause}");
        }
        ExitCode::FAILURE
    })
}
