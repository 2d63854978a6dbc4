//! Selects the program that runs the app: Spin if installed, otherwise the project's local host.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::root;

/// A program that accepts `up -f spin.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// `spin`, 4.1 or later.
    Spin,
    /// `local-host`, built in this workspace.
    Local,
}

impl Engine {
    /// Selects the engine as `scripts/engine` does: by `name` (`spin` or `local`), else by `STAMPEDE_ENGINE`, else Spin
    /// if it is installed.
    pub fn discover(name: Option<&str>) -> Result<Self> {
        let output = Command::new(root::find()?.join("scripts/engine")).args(name).output()?;
        match &*output.stdout {
            b"spin\n" => Ok(Self::Spin),
            b"local\n" => Ok(Self::Local),
            _ => bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end()),
        }
    }

    /// Path of the program; `target` is Cargo's target directory.
    pub fn program(&self, target: &Path) -> PathBuf {
        match self {
            Self::Spin => PathBuf::from("spin"),
            Self::Local => target.join("release/local-host"),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spin => "spin",
            Self::Local => "local",
        })
    }
}

/// Cargo's target directory of the project at `root`.
pub fn target_directory(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target")))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use tempfile::TempDir;

    use super::*;

    /// What `scripts/engine` prints if `spin --version` prints `version`.
    fn engine_beside(version: &str) -> String {
        let temp_dir = TempDir::new().expect("a directory");
        let spin = temp_dir.path().join("spin");
        fs::write(&spin, format!("#!/bin/sh\necho '{version}'\n")).expect("a program");
        fs::set_permissions(&spin, fs::Permissions::from_mode(0o755)).expect("executable");
        let path = format!("{}:{}", temp_dir.path().display(), env::var("PATH").expect("a path"));
        let script = root::find().expect("the project").join("scripts/engine");
        let output = Command::new(script).env("PATH", path).env_remove("STAMPEDE_ENGINE").output().expect("an answer");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn spin_is_the_engine_from_4_1_on() {
        assert_eq!(engine_beside("spin 4.1.0-pre0 (f87b2c1 2026-04-01)"), "spin");
        assert_eq!(engine_beside("spin 10.0.0"), "spin");
        assert_eq!(engine_beside("spin 4.0.2 (abc 2026-01-01)"), "local");
        assert_eq!(engine_beside("Spin Version 6.5.2 -- 6 December 2019"), "local", "another program of that name");
    }

    #[test]
    fn an_unknown_engine_is_refused() {
        assert!(Engine::discover(Some("wasmer")).is_err());
        assert_eq!(Engine::discover(Some("local")).ok(), Some(Engine::Local));
    }
}
