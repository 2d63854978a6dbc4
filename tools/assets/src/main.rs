//! Builds the sources in `static/` into the directory that is served (A1).
//!
//! Files under `assets/` get a name that contains a hash of their content, so that browsers can cache them forever;
//! every reference to them is rewritten. All other files (pages, demo pictures, `robots.txt`) keep their names. Each
//! compressible file also gets a `.br` and a `.gz` variant. Styles and scripts with `data-inline` become part of their page.
//!
//! The client's modules are served twice: as assets for these pages, and with their names for pages of the shop.

mod compress;
mod inline;
mod link;
mod references;
mod tree;
mod words;

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::Context;
use clap::Parser;

/// Where the client's modules are in the sources: for these pages, and for pages of the shop, which name its version.
const CLIENT_FOLDERS: [&str; 2] = ["assets/client", "client/v1"];

/// Builds the folders SOURCE (usually static) and CLIENT (usually clients/js/src) into the folder TARGET (usually
/// target/static). TARGET holds the result afterwards, and the assets of earlier builds for a week.
#[derive(Parser)]
struct Options {
    source: PathBuf,
    client: PathBuf,
    target: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Options { source, client, target } = Options::parse();
    println!("{}", build(&source, &client, &target)?);
    Ok(())
}

/// Reads, links, compresses and writes. Returns a one-line summary.
fn build(source: &Path, client: &Path, target: &Path) -> anyhow::Result<String> {
    let read = |folder: &Path| tree::read(folder).with_context(|| format!("cannot read {}", folder.display()));
    let mut sources = read(source)?;
    for (path, bytes) in read(client)? {
        sources.extend(CLIENT_FOLDERS.map(|folder| (format!("{folder}/{path}"), bytes.clone())));
    }
    words::add_to_pages(&mut sources)?;
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
