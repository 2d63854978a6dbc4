//! Temporary directories, removed on drop, or, if their process was killed, when the next one is created.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    sys::signal::kill,
    unistd::{Pid, getpid},
};

const PREFIX: &str = "stampede-scratch-";

/// A temporary directory, removed on drop.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates a directory. Also removes directories of processes that have ended without removing theirs.
    ///
    /// # Errors
    /// If the system's directory for temporary files is not writable.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = env::temp_dir();
        remove_stale(&parent);
        let path = parent.join(format!("{PREFIX}{}-{}", getpid(), NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).with_context(|| format!("cannot make {}: is TMPDIR writable?", path.display()))?;
        Ok(Self(path))
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        if let Some(Ok(owner)) = owner.map(str::parse)
            && kill(Pid::from_raw(owner), None) == Err(Errno::ESRCH)
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_removed_on_drop_and_after_their_process_died() {
        let temp_dir = TempDir::new().expect("a directory");
        // Not in the system's directory for temporary files: concurrent tests would remove the stale one.
        let [dead, alive] =
            [999_999_999, getpid().as_raw()].map(|pid| temp_dir.path().join(format!("{PREFIX}{pid}-0")));
        for made in [&dead, &alive] {
            fs::create_dir_all(made.join("redis")).expect("a directory");
        }
        remove_stale(temp_dir.path());
        assert!(!dead.exists() && alive.is_dir());
        let path = temp_dir.path().to_owned();
        assert!(path.is_dir());
        drop(temp_dir);
        assert!(!path.exists());
    }
}
