//! Reads and writes a directory as a map from path to bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// File contents by path inside the directory, with `/` as separator.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// Reads every file below `root`, except names that start with a dot.
pub fn read(root: &Path) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    read_directory(root, "", &mut tree)?;
    if tree.is_empty() {
        bail!("there are no files in it");
    }
    Ok(tree)
}

/// Makes `root` contain exactly `tree`.
///
/// Unchanged files are not touched. New assets are written first and old files are removed last, so that a running app
/// never serves a page whose assets are missing.
pub fn write(root: &Path, tree: &Tree) -> anyhow::Result<()> {
    // Pages are written after the assets that they refer to.
    let (assets, pages): (Vec<_>, Vec<_>) = tree.iter().partition(|(path, _)| path.starts_with("assets/"));
    for (path, bytes) in assets.into_iter().chain(pages) {
        write_file(&root.join(path), bytes)?;
    }
    let mut existing = Tree::new();
    read_directory(root, "", &mut existing)?;
    for stale in existing.keys().filter(|path| !tree.contains_key(*path)) {
        fs::remove_file(root.join(stale)).with_context(|| format!("cannot remove {stale}"))?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|existing| existing == bytes) {
        return Ok(());
    }
    let parent = path.parent().context("a file has a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    // Written to a temporary file and renamed, so that a reader sees the old file or the new one.
    let mut partial = path.as_os_str().to_owned();
    partial.push(".part");
    fs::write(&partial, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    fs::rename(&partial, path).with_context(|| format!("cannot write {}", path.display()))
}

fn read_directory(directory: &Path, prefix: &str, tree: &mut Tree) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            bail!("{} is not a name in UTF-8", entry.path().display());
        };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            read_directory(&entry.path(), &format!("{path}/"), tree)?;
        } else {
            tree.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect()
    }

    #[test]
    fn the_directory_contains_exactly_the_tree_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &tree(&[("a.html", "1"), ("assets/js/x.js", "2")])).unwrap();
        let next = tree(&[("a.html", "3"), ("assets/y.js", "4")]);
        write(directory.path(), &next).unwrap();
        assert_eq!(read(directory.path()).unwrap(), next);
    }

    #[test]
    fn an_empty_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("no files"));
    }
}
