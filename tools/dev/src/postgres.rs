//! Runs a temporary PostgreSQL server.

use std::{
    env, fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::{
    sys::signal::Signal,
    unistd::{Uid, User},
};
use tempfile::TempDir;

use crate::{ports, process::Process};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server with its own data directory, without passwords. Server and data are removed on drop.
pub struct Postgres {
    process: Process,
    port: u16,
    temp_dir: TempDir,
}

impl Postgres {
    /// Starts a server on a free port and waits until it accepts connections.
    pub fn ephemeral() -> Result<Self> {
        Self::with_environment(&[])
    }

    /// Like [`Postgres::ephemeral`], with environment variables for the server.
    pub fn with_environment(variables: &[(&str, &Path)]) -> Result<Self> {
        Self::start_new(variables, |_, _| Ok(()))
    }

    /// Starts a server with additional lines of `postgresql.conf`.
    pub fn with_settings(lines: &str) -> Result<Self> {
        Self::start_new(&[], |data, _| {
            let file = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"));
            Ok(file?.write_all(lines.as_bytes())?)
        })
    }

    /// Starts a server that accepts only connections with TLS, and has this certificate and key (PEM).
    pub fn with_tls(certificate: &Path, key: &Path) -> Result<Self> {
        Self::start_new(&[], |data, owner| {
            fs::copy(certificate, data.join("server.crt"))?;
            fs::copy(key, data.join("server.key"))?;
            // The server refuses a key that other users can read.
            fs::set_permissions(data.join("server.key"), fs::Permissions::from_mode(0o600))?;
            if let Some(owner) = owner {
                chown(data.join("server.key"), Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))?;
            }
            fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\n")?;
            fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"))?.write_all(b"ssl = on\n")?;
            Ok(())
        })
    }

    /// Creates a server's data, lets `configure` change the directory, and starts the server.
    fn start_new(
        variables: &[(&str, &Path)],
        configure: impl FnOnce(&Path, Option<&User>) -> Result<()>,
    ) -> Result<Self> {
        let (temp_dir, owner) = data_parent()?;
        let (data, bin, port) = (temp_dir.path().join("data"), bin_directory()?, ports::pick_unused()?);
        let mut initdb = command_as(owner.as_ref(), &bin.join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--pgdata"]);
        let output = initdb.arg(&data).output().context("cannot run initdb")?;
        ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        configure(&data, owner.as_ref())?;
        let process = start(temp_dir.path(), port, variables)?;
        Ok(Self { process, port, temp_dir })
    }

    /// Starts a standby server, which streams from this one and refuses writes until `SELECT pg_promote()`.
    ///
    /// # Errors
    /// If the copy of this server's data fails, or the standby does not start in time.
    pub fn standby(&self) -> Result<Self> {
        let (temp_dir, owner) = data_parent()?;
        let mut copy = command_as(owner.as_ref(), &bin_directory()?.join("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--username=postgres"]);
        copy.args(["--host=127.0.0.1", "--port", &self.port.to_string(), "--pgdata"]).arg(temp_dir.path().join("data"));
        let output = copy.output().context("cannot run pg_basebackup")?;
        ensure!(output.status.success(), "pg_basebackup failed: {}", String::from_utf8_lossy(&output.stderr));
        let port = ports::pick_unused()?;
        Ok(Self { process: start(temp_dir.path(), port, &[])?, port, temp_dir })
    }

    /// Ends every server process at once, as a crash would.
    pub fn crash(&mut self) {
        self.process.signal_with_children(Signal::SIGKILL);
        self.process.kill();
    }

    /// Crashes, and starts the server again after `pause`.
    ///
    /// # Errors
    /// If it does not start in time.
    pub fn crash_and_restart(&mut self, pause: Duration) -> Result<()> {
        self.crash();
        thread::sleep(pause);
        self.process = start(self.temp_dir.path(), self.port, &[])?;
        Ok(())
    }

    /// The last lines of its output.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// The directory of its data.
    pub fn directory(&self) -> PathBuf {
        self.temp_dir.path().join("data")
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops all server processes with `SIGSTOP`: connections stay open, and queries get no response.
    pub fn pause(&self) {
        self.process.signal_with_children(Signal::SIGSTOP);
    }

    /// Continues the paused processes.
    pub fn resume(&self) {
        self.process.signal_with_children(Signal::SIGCONT);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Paused backends would not notice that the server ends.
        self.resume();
    }
}

/// A directory for the data, and the user to run the server as, to whom it belongs.
pub fn data_parent() -> Result<(TempDir, Option<User>)> {
    let (temp_dir, owner) = (TempDir::with_prefix("stampede-")?, unprivileged_user()?);
    if let Some(owner) = &owner {
        chown(temp_dir.path(), Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))
            .with_context(|| format!("cannot give {} to {}", temp_dir.path().display(), owner.name))?;
    }
    Ok((temp_dir, owner))
}

/// Starts the server on its data in `directory`.
fn start(directory: &Path, port: u16, variables: &[(&str, &Path)]) -> Result<Process> {
    let mut server = command_as(unprivileged_user()?.as_ref(), &bin_directory()?.join("postgres"));
    server.envs(variables.iter().copied());
    server.arg("-D").arg(directory.join("data")).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    // Without fsync, data survives a crash of the server, but not of the machine: enough for a test.
    server.args(["-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200"]);
    let mut process = Process::spawn("postgres", &mut server, None)?;
    process.wait_for_line("PostgreSQL to accept connections", START_TIMEOUT, |line| {
        // A standby accepts read-only connections.
        line.contains("database system is ready to accept").then_some(())
    })?;
    Ok(process)
}

/// The directory that contains `initdb`: on the PATH, or the last by name of those that Debian or Homebrew installed.
pub fn bin_directory() -> Result<PathBuf> {
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let parents = ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"];
    let mut versions: Vec<PathBuf> = parents
        .iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path().join("bin")))
        .collect();
    versions.sort();
    let candidates = on_path.into_iter().chain(versions.into_iter().rev());
    candidates
        .into_iter()
        // The directory may have only links to some of the programs.
        .find_map(|directory| Some(directory.join("initdb").canonicalize().ok()?.parent()?.to_owned()))
        .context("PostgreSQL is not installed: `apt-get install postgresql` or `brew install postgresql`")
}

/// The user `postgres` if this process runs as root, which PostgreSQL refuses; otherwise `None`.
pub fn unprivileged_user() -> Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let user = User::from_name("postgres")?;
    Ok(Some(user.context("root cannot run PostgreSQL, and there is no user postgres: install the package postgresql")?))
}

/// A command that is run as another user, if there is one.
pub fn command_as(user: Option<&User>, program: &Path) -> Command {
    let mut command = match user {
        None => Command::new(program),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid)]);
            command.args(["--clear-groups", "--"]).arg(program);
            command
        }
    };
    // The user may not be allowed to enter the current directory.
    command.current_dir("/");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ephemeral_server_accepts_connections() {
        let postgres = Postgres::ephemeral().expect("PostgreSQL");
        assert!(ports::accepts_connections(postgres.port));
    }
}
