//! Runs a command with an app of its own: `with-app COMMAND…`.
//!
//! The command finds `STAMPEDE_URL`, `STAMPEDE_ADMIN_TOKEN`, `STAMPEDE_CRON_TOKEN` and `STAMPEDE_REDIS_URL` in its
//! environment. Its exit code is this program's. The app, its Redis and their data are gone afterwards.

use std::{
    env,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};
use stampede_harness::throwaway::Throwaway;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("with-app: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().context("usage: with-app COMMAND [ARGUMENT…]")?;
    let mut stampede = Throwaway::start(|_| {})?;
    stampede.app.wait_until_ready()?;
    let variables = &stampede.app.settings().variables;
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .env("STAMPEDE_URL", stampede.app.url())
        .env("STAMPEDE_REDIS_URL", variables.get("redis_url"))
        .env("STAMPEDE_ADMIN_TOKEN", variables.get("admin_token"))
        .env("STAMPEDE_CRON_TOKEN", variables.get("cron_token"));
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        eprintln!("with-app: the command failed ({status}); the app wrote:\n{}", stampede.app.output());
    }
    Ok(ExitCode::from(status.code().map_or(1, |code| u8::try_from(code).unwrap_or(1))))
}
