//! Writes `spin.akamai.toml`. Called by `deploy/akamai/manifest`.

use std::fs;

use anyhow::{Context, Result};
use dev::{akamai, root};

fn main() -> Result<()> {
    let root = root::find()?;
    let spin_toml = fs::read_to_string(root.join("spin.toml")).context("cannot read spin.toml")?;
    fs::write(root.join(akamai::MANIFEST_FILE), akamai::manifest(&spin_toml)?).context("cannot write the manifest")?;
    println!("{}", akamai::MANIFEST_FILE);
    Ok(())
}
