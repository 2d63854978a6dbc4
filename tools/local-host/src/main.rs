//! `local-host`: runs a Spin application where the `spin` command is not installed.
//!
//! It reads the same `spin.toml`, runs the same components and takes the same flags as Spin 4.1.
//! Behaviour that an application can observe is the same as Spin's. Unsupported settings are errors.

mod assets;
mod bindings;
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
    let result = match up.trigger {
        None => supervise::run(&up).await,
        Some(kind) => trigger::run(&up, kind).await.map(|()| ExitCode::SUCCESS),
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
