//! Command-line flags: the subset of Spin's flags that this host supports.

mod range;
mod source;

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::{range::Range, source::VariableSource};

/// Runs a Spin application where the `spin` command is not installed.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the application
    Up(Box<Up>),
}

/// The flags of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// The manifest, or the directory with a spin.toml in it
    #[arg(short, long = "from", alias = "file", default_value = "spin.toml")]
    pub from: PathBuf,

    /// A component to run, by id; may be repeated (default: all)
    #[arg(short, long = "component-id", value_name = "ID")]
    pub components: Vec<String>,

    /// A variable of the application; may be repeated, the last one wins
    #[arg(long, value_name = "KEY=VALUE | KEY=@FILE | @FILE.json | @FILE.toml")]
    pub variable: Vec<VariableSource>,

    /// An environment variable for every component; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_key_value)]
    pub env: Vec<(String, String)>,

    /// Configuration of stores and variable providers
    #[arg(long, env = "RUNTIME_CONFIG_FILE")]
    pub runtime_config_file: Option<PathBuf>,

    /// Where the default stores and the logs are kept (default: .spin beside the manifest; empty: nowhere)
    #[arg(long)]
    pub state_dir: Option<PathBuf>,

    /// Where the output of components is logged (default: logs in the state directory; empty: nowhere)
    #[arg(short = 'L', long, env = "SPIN_LOG_DIR")]
    pub log_dir: Option<PathBuf>,

    /// Do not show the output of components
    #[arg(short, long)]
    pub quiet: bool,

    /// A key and its value for the default key-value store; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_key_value)]
    pub key_value: Vec<(String, String)>,

    /// Statements for the default database, or @FILE with statements; may be repeated
    #[arg(long, value_name = "STATEMENTS | @FILE")]
    pub sqlite: Vec<String>,

    /// The most memory an instance may have, in bytes
    #[arg(long, env = "SPIN_MAX_INSTANCE_MEMORY")]
    pub max_instance_memory: Option<usize>,

    /// Compile the components anew instead of using the cache
    #[arg(long)]
    pub disable_cache: bool,

    /// Allocate instances one by one instead of from a pool
    #[arg(long)]
    pub disable_pooling: bool,

    #[command(flatten)]
    pub http: HttpArgs,

    /// The one trigger type that this process runs; without it, there is a process for each
    #[arg(long, hide = true)]
    pub trigger: Option<TriggerType>,

    /// The directory that the parent process prepared
    #[arg(long, hide = true, requires = "trigger")]
    pub working_dir: Option<PathBuf>,
}

/// The flags that only the HTTP trigger takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// The address to listen on; with port 0 the system chooses the port
    #[arg(long, env = "SPIN_HTTP_LISTEN_ADDR", default_value = "127.0.0.1:3000", value_parser = resolve_address)]
    pub listen: SocketAddr,

    /// Take the next free port if the port is in use
    #[arg(long)]
    pub find_free_port: bool,

    /// How many requests an instance serves: a number, or a range such as 1..8
    #[arg(long, default_value = "128")]
    pub max_instance_reuse_count: Range<usize>,

    /// How many requests an instance serves at once: a number, or a range
    #[arg(long, default_value = "16")]
    pub max_instance_concurrent_reuse_count: Range<usize>,

    /// How long a response may take (s, ms, us, ns): a time, or a range
    #[arg(long)]
    pub request_timeout: Option<Range<Duration>>,

    /// How long an idle instance is kept (s, ms, us, ns): a time, or a range
    #[arg(long, default_value = "1s")]
    pub idle_instance_timeout: Range<Duration>,
}

/// A type of trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TriggerType {
    Http,
    Redis,
}

fn parse_key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("write it as key=value".into()),
    }
}

/// Resolves an address. If the name has several addresses, 127.0.0.1 is preferred, as in Spin.
fn resolve_address(text: &str) -> anyhow::Result<SocketAddr> {
    let addresses: Vec<SocketAddr> = text.to_socket_addrs()?.collect();
    let localhost = std::net::Ipv4Addr::LOCALHOST;
    let preferred = addresses.iter().find(|address| address.ip() == localhost);
    preferred.or(addresses.first()).copied().context("the address cannot be resolved")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_match_spin() {
        let Command::Up(up) = Cli::parse_from(["local-host", "up"]).command;
        assert_eq!(up.http.listen, "127.0.0.1:3000".parse().unwrap());
        assert_eq!(up.http.max_instance_reuse_count, Range::Fixed(128));
        assert_eq!(up.http.max_instance_concurrent_reuse_count, Range::Fixed(16));
        assert_eq!(up.http.idle_instance_timeout, Range::Fixed(Duration::from_secs(1)));
        assert_eq!(up.http.request_timeout, None);
    }

    #[test]
    fn localhost_means_ipv4() {
        assert_eq!(resolve_address("localhost:1").unwrap(), "127.0.0.1:1".parse().unwrap());
    }
}
