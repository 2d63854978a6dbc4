//! Parent process: starts one child process per trigger type. When one exits, all are stopped.

use std::{
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use tokio::{
    process::{Child, ChildStdin, Command},
    task::JoinSet,
};

use crate::{cli::Up, shutdown, trigger};

/// How long children may take to exit before they are killed.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Starts the children and waits until one of them exits, or a shutdown is requested.
///
/// # Errors
/// If the application cannot be read, or a child cannot be started.
pub async fn run(up: &Up) -> anyhow::Result<ExitCode> {
    // The application is checked here, so that an error is reported once and not by every child.
    let app = trigger::prepare(up)?.app;
    let assets = trigger::prepare_assets(&app)?;
    let kinds = app.trigger_types();
    let several = kinds.len() > 1;
    let mut children = JoinSet::new();
    let mut child_stdins = Vec::new();
    for kind in kinds {
        let (child, stdin) = spawn_child(kind, assets.path())?;
        child_stdins.push(stdin);
        children.spawn(wait(child));
    }

    let ended = tokio::select! {
        ended = children.join_next() => ended,
        () = shutdown::requested(false) => None,
    };
    let code = match ended {
        None => ExitCode::SUCCESS,
        Some(status) => {
            let status = status??;
            if !status.success() && several {
                println!("A trigger exited unexpectedly. Terminating.");
            }
            exit_code(status)
        }
    };
    // Closing stdin makes the children exit. Children still running after the grace period are killed on drop.
    drop(child_stdins);
    let _ = tokio::time::timeout(GRACE_PERIOD, async { while children.join_next().await.is_some() {} }).await;
    Ok(code)
}

fn spawn_child(kind: &str, assets: &std::path::Path) -> anyhow::Result<(Child, Option<ChildStdin>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(["--trigger", kind])
        .arg("--working-dir")
        .arg(assets)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("the process of the {kind} trigger cannot be started"))?;
    let stdin = child.stdin.take();
    Ok((child, stdin))
}

async fn wait(mut child: Child) -> std::io::Result<ExitStatus> {
    child.wait().await
}

/// Returns the child's exit code, or 128 plus the signal number if a signal killed it, as in a shell.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;
    use crate::cli::TriggerType;

    #[test]
    fn exit_codes_distinguish_killed_from_failed_children() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), ExitCode::from(3));
        assert_eq!(exit_code(ExitStatus::from_raw(9)), ExitCode::from(137));
    }

    #[test]
    fn every_trigger_type_is_a_value_of_the_flag() {
        for kind in ["http", "redis"] {
            <TriggerType as clap::ValueEnum>::from_str(kind, false).unwrap();
        }
    }
}
