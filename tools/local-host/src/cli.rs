//! Command-line flags: the subset of Spin's flags that the project uses.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// The manifest
    #[arg(short, long = "from", alias = "file", default_value = "spin.toml")]
    pub from: PathBuf,

    /// A component to run, by id; may be repeated (default: all)
    #[arg(short, long = "component-id", value_name = "ID")]
    pub components: Vec<String>,

    /// A variable of the application; may be repeated, the last one wins
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_variable)]
    pub variable: Vec<(String, String)>,

    /// Where stores are kept, and limits of connections
    #[arg(long)]
    pub runtime_config_file: Option<PathBuf>,

    /// Where the default stores and the logs are kept (default: .spin beside the manifest)
    #[arg(long)]
    pub state_dir: Option<PathBuf>,

    #[command(flatten)]
    pub http: HttpArgs,

    /// The one trigger type that this process runs; without it, there is a process for each
    #[arg(long, hide = true, requires = "working_dir")]
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
    #[arg(long, default_value = "127.0.0.1:3000")]
    pub listen: SocketAddr,

    /// How many requests an instance serves
    #[arg(long, default_value = "128")]
    pub max_instance_reuse_count: usize,

    /// How many requests an instance serves at once
    #[arg(long, default_value = "16")]
    pub max_instance_concurrent_reuse_count: usize,

    /// How long an idle instance is kept, in s or ms
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub idle_instance_timeout: Duration,
}

/// A type of trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TriggerType {
    Http,
    Redis,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.starts_with('@') && !value.starts_with('@') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("write it as key=value; variables from files need Spin".into()),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit): (_, fn(u64) -> Duration) = match text.strip_suffix("ms") {
        Some(number) => (number, Duration::from_millis),
        None => (text.strip_suffix('s').unwrap_or(text), Duration::from_secs),
    };
    number.parse().map(unit).map_err(|error| format!("expected an integer with `s` or `ms`; got {text:?}; {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Up, clap::Error> {
        let Command::Up(up) = Cli::try_parse_from([&["local-host", "up"], flags].concat())?.command;
        Ok(*up)
    }

    #[test]
    fn defaults_match_spin() {
        let http = parse(&[]).unwrap().http;
        assert_eq!(http.listen, "127.0.0.1:3000".parse().unwrap());
        assert_eq!(http.max_instance_reuse_count, 128);
        assert_eq!(http.max_instance_concurrent_reuse_count, 16);
        assert_eq!(http.idle_instance_timeout, Duration::from_secs(1));
    }

    #[test]
    fn what_only_spin_understands_is_refused() {
        let flags = ["--variable=a=b=c", "--idle-instance-timeout=5ms"];
        let up = parse(&flags).unwrap();
        assert_eq!(up.variable, [("a".to_owned(), "b=c".to_owned())]);
        assert_eq!(up.http.idle_instance_timeout, Duration::from_millis(5));
        for bad in [
            "--variable=a",
            "--variable=@a.json",
            "--variable=a=@file",
            "--max-instance-reuse-count=1..8",
            "--idle-instance-timeout=1..8s",
            "--idle-instance-timeout=5us",
            "--quiet",
            "--env=a=b",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad} was accepted");
        }
    }
}
