//! Runs a Redis server with the settings that the app requires.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use redis::{FromRedisValue, InfoDict, RedisResult};

use crate::{
    poll::{self, Probe},
    ports,
    process::Process,
};

/// Loading a large append-only file takes time.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A Redis server and its data directory.
pub struct Redis {
    process: Process,
    port: u16,
    directory: PathBuf,
    log: Option<PathBuf>,
    settings: Vec<String>,
}

impl Redis {
    /// Starts a server on `port` and waits until it is ready.
    pub fn start(directory: &Path, port: u16, log: Option<&Path>) -> Result<Self> {
        Self::start_with(directory, port, log, &[])
    }

    /// Like [`Redis::start`], with additional settings as on the command line: `--name value`.
    pub fn start_with(directory: &Path, port: u16, log: Option<&Path>, settings: &[&str]) -> Result<Self> {
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut process = spawn(directory, port, log, &settings)?;
        wait_until_ready(&mut process, port)?;
        Ok(Self { process, port, directory: directory.to_owned(), log: log.map(Path::to_owned), settings })
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a server on a free port.
    pub fn ephemeral(directory: &Path) -> Result<Self> {
        Self::start(directory, ports::pick_unused()?, None)
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Processor time used by the server.
    pub fn cpu_time(&self) -> Result<Duration> {
        let info: InfoDict = query(self.port, &["INFO", "cpu"])?;
        let seconds = |field: &str| info.get::<f64>(field).with_context(|| format!("INFO shows no {field}"));
        Ok(Duration::from_secs_f64(seconds("used_cpu_sys")? + seconds("used_cpu_user")?))
    }

    /// Waits until a client subscribes to `channel`.
    pub fn wait_for_subscriber(&self, channel: &str) -> Result<()> {
        poll::until(&format!("a subscriber of {channel}"), START_TIMEOUT, || {
            Ok(match query::<(String, u64)>(self.port, &["PUBSUB", "NUMSUB", channel]) {
                Ok((_, 1..)) => Probe::Ready(()),
                Ok((_, 0)) => Probe::Pending("no subscriber".to_owned()),
                // The server may still be loading its data.
                Err(error) => Probe::Pending(error.to_string()),
            })
        })
    }

    /// The server's process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills the server, as a crash would; the append-only file stays.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills the server and starts it again on the same port with the same data.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = spawn(&self.directory, self.port, self.log.as_deref(), &self.settings)?;
        wait_until_ready(&mut self.process, self.port)
    }
}

/// The URL of a server on this machine.
pub fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// Waits until a server that was spawned replies to `PING`.
pub fn wait_until_ready(process: &mut Process, port: u16) -> Result<()> {
    let ready = poll::until("redis-server to answer", START_TIMEOUT, || {
        match (query::<String>(port, &["PING"]), process.exited()) {
            (_, Some(status)) => bail!("redis-server ended with {status}"),
            (Ok(_), None) => Ok(Probe::Ready(())),
            (Err(error), None) => Ok(Probe::Pending(error.to_string())),
        }
    });
    ready.with_context(|| format!("redis-server wrote:\n{}", process.output()))
}

/// Starts a server without waiting until it is ready. It keeps its data in `directory`, with the durability that the
/// app requires.
pub fn spawn(directory: &Path, port: u16, log: Option<&Path>, settings: &[String]) -> Result<Process> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "yes", "--maxmemory-policy", "noeviction"]).arg("--dir").arg(directory);
    command.args(settings);
    Process::spawn("redis-server", &mut command, log)
}

/// Sends a command on a connection of its own.
fn query<T: FromRedisValue>(port: u16, command: &[&str]) -> RedisResult<T> {
    let timeout = Duration::from_secs(1);
    let mut connection = ::redis::Client::open(url(port))?.get_connection_with_timeout(timeout)?;
    connection.set_read_timeout(Some(timeout))?;
    ::redis::cmd(command[0]).arg(&command[1..]).query(&mut connection)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_server_never_evicts_and_its_data_survives_a_crash() {
        let temp_dir = TempDir::new().expect("a directory");
        let mut redis = Redis::ephemeral(temp_dir.path()).expect("redis-server");
        query::<()>(redis.port, &["SET", "stock", "7"]).expect("set");
        let policy: (String, String) = query(redis.port, &["CONFIG", "GET", "maxmemory-policy"]).expect("a policy");
        assert_eq!(policy.1, "noeviction");
        redis.restart().expect("redis-server");
        assert_eq!(query::<u64>(redis.port, &["GET", "stock"]).ok(), Some(7));
    }
}
