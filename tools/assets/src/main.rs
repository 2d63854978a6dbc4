//! Builds the sources in `static/` into the directory that is served.
//!
//! Files under `assets/` get a name that contains a hash of their content, so that browsers can cache them forever;
//! every reference to them is rewritten. All other files (pages, demo pictures, `robots.txt`) keep their names. Each
//! compressible file also gets a `.br` and a `.gz` variant.

mod compress;
mod link;
mod references;
mod tree;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use clap::Parser;

/// Builds the folder SOURCE (usually static) into the folder TARGET (usually target/static). TARGET holds the result
/// afterwards, and the assets of earlier builds for a week.
#[derive(Parser)]
struct Options {
    source: PathBuf,
    target: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Options { source, target } = Options::parse();
    println!("{}", build(&source, &target)?);
    Ok(())
}

/// Reads, links, compresses and writes. Returns a one-line summary.
fn build(source: &Path, target: &Path) -> anyhow::Result<String> {
    let sources = tree::read(source).with_context(|| format!("cannot read the sources in {}", source.display()))?;
    let linked = link::link(&sources)?;
    let plain_bytes: usize = linked.values().map(Vec::len).sum();
    let files = linked.len();
    let served = compress::with_compressed_variants(linked)?;
    tree::write(target, &served, SystemTime::now())
        .with_context(|| format!("cannot write the result to {}", target.display()))?;
    let brotli_bytes: usize =
        served.iter().filter(|(path, _)| path.ends_with(".br")).map(|(_, bytes)| bytes.len()).sum();
    Ok(format!(
        "{}: {files} files, {} KiB, {} KiB as br",
        target.display(),
        plain_bytes.div_ceil(1024),
        brotli_bytes.div_ceil(1024)
    ))
}
