//! Selects the program that runs the app: Spin if installed, otherwise the project's local host.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

/// A program that accepts `up -f spin.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// `spin`, 4.1 or later.
    Spin,
    /// `local-host`, built in this workspace.
    Local,
}

/// First Spin version that runs WASIp3 components, as major and minor number.
const MIN_SPIN_VERSION: (u32, u32) = (4, 1);

impl Engine {
    /// Selects the engine: by `name` (`spin` or `local`), else by `STAMPEDE_ENGINE`, else Spin if it is installed.
    pub fn discover(name: Option<&str>) -> Result<Self> {
        let requested =
            name.map(str::to_owned).or_else(|| env::var("STAMPEDE_ENGINE").ok()).filter(|name| !name.is_empty());
        match (requested.as_deref(), spin_version()) {
            (Some("local"), _) => Ok(Self::Local),
            (Some("spin"), Some(version)) if version >= MIN_SPIN_VERSION => Ok(Self::Spin),
            (Some("spin"), found) => {
                let found = found.map_or("there is none".to_owned(), |(major, minor)| format!("it is {major}.{minor}"));
                bail!(
                    "the engine spin needs a `spin` of 4.1 or later on the PATH, and {found}: install it, or use local"
                )
            }
            (None, Some(version)) if version >= MIN_SPIN_VERSION => Ok(Self::Spin),
            (None, _) => Ok(Self::Local),
            (Some(other), _) => bail!("the engine {other:?} is unknown: use spin or local"),
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

fn spin_version() -> Option<(u32, u32)> {
    let output = Command::new("spin").arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Parses `spin 4.1.0-pre0 (…)` to (4, 1). `None` for the output of other programs named `spin`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("spin ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_of_the_minimum_version_is_accepted() {
        assert!(parse_version("spin 4.1.0-pre0 (f87b2c1 2026-04-01)\n") >= Some(MIN_SPIN_VERSION));
        assert!(parse_version("spin 4.0.2 (abc 2026-01-01)\n") < Some(MIN_SPIN_VERSION));
        assert!(parse_version("spin 10.0.0\n") >= Some(MIN_SPIN_VERSION));
        assert_eq!(parse_version("Spin Version 6.5.2 -- 6 December 2019\n"), None);
    }

    #[test]
    fn an_unknown_engine_is_refused() {
        assert!(Engine::discover(Some("wasmer")).is_err());
        assert_eq!(Engine::discover(Some("local")).ok(), Some(Engine::Local));
    }
}
