//! Builds the functions, the files they serve and, if it is the engine, the local host.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::{Context, Result, ensure};

use crate::{
    engine::{Engine, target_directory},
    manifest::{BuildStep, Manifest, TARGET},
};

/// Builds everything that `engine` needs to run the app. Fast if nothing changed.
///
/// # Errors
/// If a command fails; the command itself prints why.
pub fn all(root: &Path, engine: &Engine) -> Result<()> {
    if *engine == Engine::Local {
        cargo(root, ["-p", "local-host"])?;
    }
    let plan = Manifest::read(root)?.plan();
    for step in &plan.steps {
        run_if_stale(root, step)?;
    }
    if plan.packages.is_empty() {
        return Ok(());
    }
    let packages = plan.packages.iter().flat_map(|package| ["-p", package]);
    cargo(root, ["--target", TARGET].into_iter().chain(packages))
}

fn cargo<'a>(root: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["build", "--release"]).args(arguments);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

/// Runs a step, unless it succeeded after the last change of its watched files.
fn run_if_stale(root: &Path, step: &BuildStep) -> Result<()> {
    let stamp = target_directory(root).join("built").join(&step.component);
    if is_fresh(root, step, &stamp) {
        return Ok(());
    }
    let started = SystemTime::now();
    run(Command::new("sh").current_dir(root).args(["-c", &step.command]))?;
    if let Some(parent) = stamp.parent() {
        fs::create_dir_all(parent)?;
    }
    // The stamp has the start time, so that a file that changed during the step counts as newer.
    let file = fs::File::create(&stamp).with_context(|| format!("cannot write {}", stamp.display()))?;
    file.set_modified(started)?;
    Ok(())
}

fn is_fresh(root: &Path, step: &BuildStep, stamp: &Path) -> bool {
    let Ok(built) = fs::metadata(stamp).and_then(|stamp| stamp.modified()) else { return false };
    let outputs_exist = step.files.iter().all(|files| literal_prefix(root, files).exists());
    let newest = step.watch.iter().filter_map(|glob| newest_mtime(&literal_prefix(root, glob))).max();
    outputs_exist && newest.is_some_and(|newest| newest < built)
}

/// The path of a glob up to its first wildcard.
fn literal_prefix(root: &Path, glob: &str) -> PathBuf {
    let fixed = glob.split('/').take_while(|part| !part.contains(['*', '?', '[', '{']));
    fixed.fold(root.to_owned(), |path, part| path.join(part))
}

/// The latest modification time of the files and directories at or below a path. Removing a file changes its directory.
fn newest_mtime(path: &Path) -> Option<SystemTime> {
    let own = fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    let below =
        fs::read_dir(path).into_iter().flatten().flatten().filter_map(|entry| newest_mtime(&entry.path())).max();
    own.max(below)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::temp_dir::TempDir;

    #[test]
    fn a_step_runs_only_after_a_watched_file_changed_or_its_output_is_gone() {
        let temp_dir = TempDir::new().expect("a directory");
        let root = temp_dir.path();
        fs::create_dir_all(root.join("static/css")).expect("a directory");
        fs::write(root.join("static/css/page.css"), "a").expect("a file");
        let step = BuildStep {
            component: format!("of-a-test-{}", std::process::id()),
            command: "mkdir -p out && echo run >> runs".to_owned(),
            watch: vec!["static/**/*".to_owned()],
            files: vec!["out".to_owned()],
        };
        let runs = || {
            run_if_stale(root, &step).expect("built");
            fs::read_to_string(root.join("runs")).expect("runs").lines().count()
        };
        // The times are set explicitly, because the file system's clock is too coarse for a test.
        let set_mtime = |path: &str, time| fs::File::open(root.join(path)).and_then(|file| file.set_modified(time));
        for path in ["static", "static/css", "static/css/page.css"] {
            set_mtime(path, SystemTime::now() - Duration::from_secs(10)).expect("an older file");
        }
        assert_eq!((runs(), runs()), (1, 1));
        set_mtime("static/css/page.css", SystemTime::now()).expect("a newer file");
        assert_eq!((runs(), runs()), (2, 2));
        fs::remove_dir(root.join("out")).expect("removed");
        assert_eq!(runs(), 3);
        fs::remove_file(target_directory(root).join("built").join(&step.component)).expect("removed");
    }
}
