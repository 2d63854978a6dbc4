//! Rehearses a sale against an installation (G21): a list of checks, then a small sale, and go or no-go with reasons.

mod background;
mod checks;
mod installation;
mod network;
mod provider;
mod sale;

use std::{fmt, path::PathBuf};

use anyhow::Result;
use time::OffsetDateTime;

use self::installation::Installation;
use crate::{simulation::options::PayAt, target::TargetOptions};

/// Checks an installation, and rehearses a small sale that is not listed and deleted afterwards.
///
/// Exit status: 0 for go, 1 for no-go. What a line does not check, it says.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// The installation.
    #[command(flatten)]
    pub target: TargetOptions,

    /// Where the buyers of the small sale pay. What they pay, the app refunds
    #[arg(long, value_enum, default_value = "expire")]
    pub pay: PayAt,

    /// Units of the small sale; twice as many buyers come
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub stock: u32,

    /// Only the list, without the small sale
    #[arg(long)]
    pub no_sale: bool,

    /// Where deploy/backup/backup writes; `none` if a service makes the backups
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/backups/stampede")]
    pub backups: PathBuf,

    /// What the installation is for.
    #[command(flatten)]
    pub planned: Planned,
}

/// The sale that the installation is for, as `plan` takes it.
#[derive(clap::Args, Debug)]
pub struct Planned {
    /// Visitors who wait for the planned sale's start
    #[arg(long, requires = "units")]
    pub visitors: Option<String>,

    /// Units of the planned sale
    #[arg(long, requires = "visitors")]
    pub units: Option<String>,

    /// Time over which its reservations arrive, such as 3s
    #[arg(long, default_value = "3s")]
    pub within: String,

    /// App processes of the installation
    #[arg(long, default_value_t = 1)]
    pub apps: u32,

    /// Cores of each one's machine
    #[arg(long, default_value = "8")]
    pub app_cores: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    Go(String),
    /// What is wrong, and what to do.
    NoGo(String),
    /// Why it was not checked.
    Unchecked(String),
}

/// What each check found, by its name.
#[derive(Default)]
struct Lines(Vec<(&'static str, Finding)>);

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Go(_) => "go",
            Self::NoGo(_) => "NO-GO",
            Self::Unchecked(_) => "-",
        })
    }
}

/// Runs the checks and the sale, and prints a line for each. Returns the exit status.
pub async fn run(options: Options) -> Result<u8> {
    let installation = Installation::new(options.target.resolve()?)?;
    let secrets = options.target.variables()("WEBHOOK_SECRETS");
    let mut lines = Lines::default();
    lines.add("stores", checks::stores(&installation).await);
    lines.add("limits", checks::limits(&installation).await);
    lines.add("clocks", network::clocks(&installation).await);
    lines.add("certificate", network::certificate(&installation).await);
    lines.add("callbacks in", provider::callbacks(&installation, secrets.as_deref()).await);
    lines.add("events out", provider::events(&installation).await);
    lines.add("sweeper", background::sweeper(&installation).await);
    lines.add("backup", background::backup(&options.backups));
    lines.add("capacity", checks::capacity(&options.planned));
    // A sale would only repeat what is wrong.
    if !options.no_sale && lines.is_go() {
        let started = OffsetDateTime::now_utc();
        lines.add("sale", sale::rehearse(&options, &installation).await);
        // Without orders, there was nothing to write.
        if lines.is_go() {
            lines.add("writer", background::writer(&installation, started).await);
        }
    }
    println!("\n{}", lines.conclusion());
    Ok(u8::from(!lines.is_go()))
}

impl Lines {
    /// Prints and keeps what a check found.
    fn add(&mut self, name: &'static str, finding: Result<Finding>) {
        let finding = finding.unwrap_or_else(|error| Finding::NoGo(format!("{error:#}")));
        let (Finding::Go(text) | Finding::NoGo(text) | Finding::Unchecked(text)) = &finding;
        println!("{:<6} {name:<13} {text}", finding.to_string());
        self.0.push((name, finding));
    }

    fn is_go(&self) -> bool {
        !self.0.iter().any(|(_, finding)| matches!(finding, Finding::NoGo(_)))
    }

    /// What is in the way, or what was not checked.
    fn conclusion(&self) -> String {
        let names = |is_wanted: fn(&Finding) -> bool| {
            let wanted = self.0.iter().filter(|(_, finding)| is_wanted(finding)).map(|(name, _)| *name);
            wanted.collect::<Vec<_>>().join(", ")
        };
        if !self.is_go() {
            return format!("NO-GO: {}", names(|finding| matches!(finding, Finding::NoGo(_))));
        }
        match names(|finding| matches!(finding, Finding::Unchecked(_))).as_str() {
            "" => "GO".to_owned(),
            unchecked => format!("GO, but not checked: {unchecked}"),
        }
    }
}

#[cfg(test)]
mod tests;
