//! Builds the functions, the files they serve and, if it is the engine, the local host.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    engine::Engine,
    manifest::{Manifest, TARGET},
};

/// Builds everything that `engine` needs to run the app. Fast if nothing changed. A command that fails prints why.
pub fn all(root: &Path, engine: &Engine) -> Result<()> {
    if *engine == Engine::Local {
        cargo(root, ["-p", "local-host"])?;
    }
    functions(root, Path::new("spin.toml"))
}

/// Builds the functions of the manifest at `manifest`, relative to `root`.
pub fn functions(root: &Path, manifest: &Path) -> Result<()> {
    let (packages, commands) = Manifest::read_file(&root.join(manifest))?.build_plan();
    for command in commands {
        run(Command::new("sh").current_dir(root).args(["-c", &command]))?;
    }
    if packages.is_empty() {
        return Ok(());
    }
    cargo(root, ["--target", TARGET].into_iter().chain(packages.iter().flat_map(|package| ["-p", package])))
}

fn cargo<'a>(root: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    run(Command::new("cargo").current_dir(root).args(["build", "--release"]).args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}
