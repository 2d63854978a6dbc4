//! Command line of `up`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;

/// Starts Stampede: the app, a Redis with an append-only file, the sweeper, a demo sale.
///
/// Secrets are generated once and kept in .stampede/env; data is kept in .stampede for the next start. An exported
/// SPIN_VARIABLE_… replaces that of the file. Ctrl-C stops everything.
#[derive(Debug, Parser)]
#[command(name = "scripts/up")]
pub struct Options {
    /// Address that the app listens on; with --services, where `spin up` serves it
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Engine that runs the app: spin or local [default: spin if 4.1 or later is installed, else local]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// Use this Redis instead of starting one (redis://… or rediss://…)
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Keep the ledger in this PostgreSQL (postgres://…) instead of SQLite
    #[arg(long, value_name = "URL")]
    pub ledger: Option<String>,
    /// Delete data and secrets of earlier starts (never those behind --redis and --ledger)
    #[arg(long)]
    pub fresh: bool,
    /// Do not create the demo sale
    #[arg(long)]
    pub no_demo: bool,
    /// Do not call the sweeper every five seconds
    #[arg(long)]
    pub no_sweeper: bool,
    /// Start all but the app, and write .env: `spin up` and `spin watch` then run it
    #[arg(long, conflicts_with = "engine")]
    pub services: bool,
    /// Directory of secrets and data
    #[arg(long, default_value = ".stampede", value_name = "DIRECTORY")]
    pub directory: PathBuf,
}
