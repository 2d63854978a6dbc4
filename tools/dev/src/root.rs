//! Finds the project's directory.

use std::{env, path::PathBuf};

use anyhow::{Context, Result};

/// Returns the nearest directory that contains `spin.toml`, from the current one upwards.
pub fn find() -> Result<PathBuf> {
    let here = env::current_dir().context("the current directory is gone")?;
    here.ancestors()
        .find(|directory| directory.join("spin.toml").is_file())
        .map(PathBuf::from)
        .with_context(|| format!("no spin.toml in {} or above it: run this inside the project", here.display()))
}
