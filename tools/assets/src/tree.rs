//! Reads and writes a directory as a map from path to bytes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    time::{Duration, SystemTime},
};

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

/// How long assets that are no longer built are kept: pages that a browser, a cache or an open tab has still load them.
const KEEP_ASSETS: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Makes `root` contain `tree`, and the assets of earlier trees of the last seven days.
///
/// New assets are written first and old files are removed last, so that a running app never serves a page whose assets
/// are missing. The modification time of an asset is that of the last build that made it.
pub fn write(root: &Path, tree: &Tree, now: SystemTime) -> anyhow::Result<()> {
    // Pages are written after the assets that they refer to.
    let (assets, pages): (Vec<_>, Vec<_>) = tree.iter().partition(|(path, _)| path.starts_with("assets/"));
    for (path, bytes) in assets {
        write_file(&root.join(path), bytes)?;
        File::options().append(true).open(root.join(path))?.set_modified(now)?;
    }
    for (path, bytes) in pages {
        write_file(&root.join(path), bytes)?;
    }
    let mut existing = Tree::new();
    read_directory(root, "", &mut existing)?;
    for stale in existing.keys().filter(|path| !tree.contains_key(*path)) {
        let path = root.join(stale);
        let last_built = fs::metadata(&path)?.modified()?;
        if !stale.starts_with("assets/") || last_built + KEEP_ASSETS < now {
            fs::remove_file(path).with_context(|| format!("cannot remove {stale}"))?;
        }
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
    fn old_pages_are_removed_and_old_assets_kept_for_a_week_after_the_last_build_that_made_them() {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        let directory = tempfile::tempdir().unwrap();
        let start = SystemTime::UNIX_EPOCH + 100 * DAY;
        let old = tree(&[("a.html", "1"), ("b.html", "2"), ("assets/js/x.js", "3")]);
        write(directory.path(), &old, start).unwrap();
        write(directory.path(), &old, start + 30 * DAY).unwrap();
        let new = tree(&[("a.html", "4"), ("assets/y.js", "5")]);
        write(directory.path(), &new, start + 37 * DAY).unwrap();
        let kept = tree(&[("a.html", "4"), ("assets/js/x.js", "3"), ("assets/y.js", "5")]);
        assert_eq!(read(directory.path()).unwrap(), kept);
        write(directory.path(), &new, start + 38 * DAY).unwrap();
        assert_eq!(read(directory.path()).unwrap(), new);
    }

    #[test]
    fn an_empty_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("no files"));
    }
}
