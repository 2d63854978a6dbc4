//! Runs a command with a temporary app: `with-app [--variable NAME=VALUE]… COMMAND…`.
//!
//! The command's environment contains `STAMPEDE_URL` and every variable of the app (`STAMPEDE_ADMIN_TOKEN`,
//! `STAMPEDE_REDIS_URL`, …). `{port:NAME}` in a value is replaced by a free port, which the command finds as
//! `STAMPEDE_PORT_<NAME>`: it can listen there for the app's calls. With `--nginx`, the site of the self-hosted kit is in
//! front of the app, with TLS, at `STAMPEDE_SITE`; `STAMPEDE_CERTIFICATE` is the file of its certificate. The exit code
//! is the command's. The app, its Redis and their data are removed afterwards.
//! It fails if a log has a secret of the app, or personal data that tests use.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use dev::{nginx::Nginx, ports, private_data, root, test_stack::TestStack};
use tempfile::TempDir;

fn main() -> Result<ExitCode> {
    let Options { nginx, variables, command } = Options::parse();
    let mut ports = Ports::default();
    let variables =
        variables.iter().map(|(name, value)| Ok((name, ports.substitute(value)?))).collect::<Result<Vec<_>>>()?;
    let mut stack = TestStack::start_with(&[], |settings| {
        settings.log = Some(settings.directory.join("app.log"));
        variables.iter().for_each(|(name, value)| settings.variables.set(name, value));
    })?;
    stack.wait_until_ready()?;
    let (program, arguments) = command.split_first().context("usage: with-app COMMAND [ARGUMENT…]")?;
    let mut command = Command::new(program);
    command.args(arguments).env("STAMPEDE_URL", stack.app.url());
    for (name, value) in stack.app.settings().variables.iter() {
        command.env(format!("STAMPEDE_{}", name.to_ascii_uppercase()), value);
    }
    for (name, port) in &ports.0 {
        command.env(format!("STAMPEDE_PORT_{}", name.to_ascii_uppercase()), port.to_string());
    }
    let site = nginx.then(|| start_nginx(stack.app.url())).transpose()?;
    if let Some((nginx, directory)) = &site {
        command.env("STAMPEDE_SITE", format!("https://127.0.0.1:{}", nginx.port()));
        command.env("STAMPEDE_CERTIFICATE", directory.path().join("fullchain.pem"));
    }
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        let output = stack.app.output();
        let lines: Vec<&str> = output.lines().filter(|line| !line.contains(r#""level":"info""#)).collect();
        eprintln!("with-app: the command failed ({status}); the app wrote, without events of level info:");
        eprintln!("{}", lines.join("\n"));
    }
    let settings = stack.app.settings().clone();
    stack.app.kill();
    let nginx_logs = site.map(|(nginx, _)| nginx.logs()).unwrap_or_default();
    let found = settings.log.as_deref().and_then(|log| private_data::find_in_log(log, &settings.variables));
    let found = found.or_else(|| private_data::find(&nginx_logs, &settings.variables).map(str::to_owned));
    if let Some(line) = found {
        bail!("a log has a secret or personal data: {line}");
    }
    Ok(ExitCode::from(status.code().map_or(1, |code| u8::try_from(code).unwrap_or(1))))
}

fn start_nginx(app: &str) -> Result<(Nginx, TempDir)> {
    let port = app.trim_end_matches('/').rsplit_once(':').context("the app's port")?.1.parse()?;
    let directory = tempfile::tempdir()?;
    Ok((Nginx::start_with_tls(directory.path(), &root::find()?, &[port])?, directory))
}

/// Runs a command with a temporary app.
#[derive(Debug, Parser)]
#[command(name = "with-app")]
struct Options {
    /// Starts nginx in front of the app, as the self-hosted kit configures it
    #[arg(long)]
    nginx: bool,
    /// A variable of the app; `{port:NAME}` in it is replaced by a free port
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = parse_variable)]
    variables: Vec<(String, String)>,
    /// The command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

fn parse_variable(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("a variable is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Free ports by name.
#[derive(Debug, Default)]
struct Ports(BTreeMap<String, u16>);

impl Ports {
    /// Replaces every `{port:NAME}` in `value`.
    fn substitute(&mut self, value: &str) -> Result<String> {
        let Some((before, rest)) = value.split_once("{port:") else { return Ok(value.to_owned()) };
        let (name, after) = rest.split_once('}').with_context(|| format!("{value:?} has no end of {{port:"))?;
        let port = match self.0.get(name) {
            Some(port) => *port,
            None => *self.0.entry(name.to_owned()).or_insert(ports::pick_unused()?),
        };
        Ok(format!("{before}{port}{}", self.substitute(after)?))
    }
}
