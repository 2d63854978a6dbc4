//! The directory `.stampede`, which keeps secrets and data from one run of `up` to the next.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::{ports, variables::Variables};

/// The data directory, locked by one `up` at a time.
pub struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Creates the directory if it is missing, and locks it.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.to_owned();
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let lock = OpenOptions::new().create(true).append(true).open(path.join("lock"));
        let lock = lock.with_context(|| format!("cannot write into {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pids = path.join("pids");
                bail!("another scripts/up is running here: end it with Ctrl-C first (see {})", pids.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let directory = Self { path, _lock: lock };
        for name in ["logs", "pids"] {
            fs::create_dir_all(directory.path_to(name))?;
        }
        Ok(directory)
    }

    /// Removes the secrets and data of earlier runs.
    pub fn clear(&self) -> Result<()> {
        for name in ["redis", "state", "env"] {
            let path = self.path_to(name);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The path of an entry.
    pub fn path_to(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Loads the saved variables, and generates those that are missing. A value that the developer added to the file is
    /// kept.
    pub fn load_variables(&self) -> Result<Variables> {
        let mut variables = Variables::generate()?;
        let path = self.path_to("env");
        match fs::read(&path) {
            Ok(bytes) => variables
                .read_lines(&String::from_utf8_lossy(&bytes))
                .with_context(|| format!("{} is damaged: repair it, or use --fresh", path.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
        Ok(variables)
    }

    /// Saves the variables in a file that only its owner can read.
    pub fn save_variables(&self, variables: &Variables) -> Result<()> {
        write_atomically(&self.path_to("env"), &variables.to_lines())
    }

    /// The port that Redis used before, if it is free; otherwise another one.
    pub fn redis_port(&self, variables: &Variables) -> Result<u16> {
        let previous = variables.get("redis_url").strip_prefix("redis://127.0.0.1:").map(str::parse);
        match previous {
            Some(Ok(port)) if ports::is_free(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) => Ok(port),
            _ => ports::pick_unused(),
        }
    }
}

/// Replaces a file, which only its owner can read: a reader sees the old text or the new one.
pub fn write_atomically(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::Duration};

    use tempfile::TempDir;

    use super::*;
    use crate::poll::{self, Probe};

    #[test]
    fn saved_variables_are_private_and_kept_until_cleared() {
        let temp_dir = TempDir::new().expect("a directory");
        let directory = DataDirectory::open(temp_dir.path()).expect("held");
        let mut variables = directory.load_variables().expect("fresh ones");
        variables.set("trusted_hops", "2");
        directory.save_variables(&variables).expect("written");
        assert_eq!(directory.load_variables().expect("kept ones"), variables);
        let mode = fs::metadata(directory.path_to("env")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        directory.clear().expect("cleared");
        assert_ne!(directory.load_variables().expect("fresh ones"), variables);
    }

    #[test]
    fn the_directory_is_locked_by_one_up_at_a_time() {
        let temp_dir = TempDir::new().expect("a directory");
        let first = DataDirectory::open(temp_dir.path()).expect("held");
        assert!(DataDirectory::open(temp_dir.path()).is_err());
        drop(first);
        // A child process that another thread is starting holds a copy of every open file until it executes its
        // program.
        let again = poll::until("the next start", Duration::from_secs(10), || {
            Ok(DataDirectory::open(temp_dir.path()).map_or_else(Probe::Pending, Probe::Ready))
        });
        assert!(again.is_ok(), "{:#}", again.err().expect("an error"));
    }
}
