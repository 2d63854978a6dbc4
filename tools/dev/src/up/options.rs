//! The command line of `up`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;

/// Starts Stampede: the app, a Redis with an append-only file, the sweeper, a demo sale.
///
/// Secrets are made once and kept in .stampede/env; data is kept in .stampede and found again by the next start.
/// Ctrl-C ends everything.
#[derive(Debug, Parser)]
#[command(name = "scripts/up")]
pub struct Options {
    /// Where the app listens
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// What runs the app: spin or local [default: spin where 4.1 or later is installed, else local]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// A Redis to use instead of one of its own (redis://… or rediss://…)
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// A PostgreSQL to keep the ledger in (postgres://…) instead of SQLite
    #[arg(long, value_name = "URL")]
    pub ledger: Option<String>,
    /// Forget data and secrets of earlier starts (never those behind --redis and --ledger)
    #[arg(long)]
    pub fresh: bool,
    /// Make no demo sale
    #[arg(long)]
    pub no_demo: bool,
    /// Do not call the sweeper every five seconds
    #[arg(long)]
    pub no_sweeper: bool,
    /// Build nothing: run what is there
    #[arg(long)]
    pub no_build: bool,
    /// Where secrets and data are kept
    #[arg(long, default_value = ".stampede", value_name = "DIRECTORY")]
    pub directory: PathBuf,
}
