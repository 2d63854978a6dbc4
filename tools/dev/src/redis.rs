//! Runs a Redis server with the settings that the app requires.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

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
    ///
    /// # Errors
    /// If `redis-server` is missing or does not become ready in time; the message contains its output.
    pub fn start(directory: &Path, port: u16, log: Option<&Path>) -> Result<Self> {
        Self::start_with(directory, port, log, &[])
    }

    /// Like [`Redis::start`], with additional settings as on the command line: `--name value`.
    ///
    /// # Errors
    /// As [`Redis::start`].
    pub fn start_with(directory: &Path, port: u16, log: Option<&Path>, settings: &[&str]) -> Result<Self> {
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut process = spawn(directory, port, log, &settings)?;
        wait_until_ready(&mut process, port)?;
        Ok(Self { process, port, directory: directory.to_owned(), log: log.map(Path::to_owned), settings })
    }

    /// The server's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a server on a free port.
    ///
    /// # Errors
    /// As [`Redis::start`].
    pub fn ephemeral(directory: &Path) -> Result<Self> {
        Self::start(directory, ports::pick_unused()?, None)
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Memory used by the server, in bytes.
    ///
    /// # Errors
    /// If there is no reply.
    pub fn used_memory(&self) -> Result<u64> {
        let reply = inline_command(self.port, "INFO memory", |reply| reply.contains("\r\nused_memory_human:"))?;
        let bytes = reply.lines().find_map(|line| line.strip_prefix("used_memory:"));
        bytes.and_then(|bytes| bytes.trim().parse().ok()).context("INFO shows no used_memory")
    }

    /// Waits until a client subscribes to `channel`.
    ///
    /// # Errors
    /// If none does in time.
    pub fn wait_for_subscriber(&self, channel: &str) -> Result<()> {
        // The reply has four lines: `*2`, `$17`, `stampede:doorbell`, `:1`.
        let is_complete = |reply: &str| reply.lines().count() == 4 && reply.ends_with("\r\n");
        poll::until(&format!("a subscriber of {channel}"), START_TIMEOUT, || {
            Ok(match inline_command(self.port, &format!("PUBSUB NUMSUB {channel}"), is_complete) {
                Ok(reply) if is_complete(&reply) && !reply.ends_with(":0\r\n") => Probe::Ready(()),
                Ok(reply) => Probe::Pending(reply),
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
    ///
    /// # Errors
    /// As [`Redis::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = spawn(&self.directory, self.port, self.log.as_deref(), &self.settings)?;
        wait_until_ready(&mut self.process, self.port)
    }
}

/// The URL of a server on this machine.
#[must_use]
pub fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// Waits until a server that was spawned replies to `PING`.
///
/// # Errors
/// If it ends or does not become ready in time; the message contains its output.
pub fn wait_until_ready(process: &mut Process, port: u16) -> Result<()> {
    let ready = poll::until("redis-server to answer", START_TIMEOUT, || match (ping(port), process.exited()) {
        (_, Some(status)) => bail!("redis-server ended with {status}"),
        (Ok(reply), None) if reply.starts_with("+PONG") => Ok(Probe::Ready(())),
        (Ok(reply), None) => Ok(Probe::Pending(reply)),
        (Err(error), None) => Ok(Probe::Pending(error.to_string())),
    });
    ready.with_context(|| format!("redis-server wrote:\n{}", process.output()))
}

/// Starts a server without waiting until it is ready. It keeps its data in `directory`, with the durability that the
/// app requires.
///
/// # Errors
/// If `redis-server` is missing.
pub fn spawn(directory: &Path, port: u16, log: Option<&Path>, settings: &[String]) -> Result<Process> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "yes", "--maxmemory-policy", "noeviction"]).arg("--dir").arg(directory);
    command.args(settings);
    Process::spawn("redis-server", &mut command, log)
}

/// Sends an inline `PING`. The reply is `+PONG`, or an error such as `-LOADING`.
fn ping(port: u16) -> std::io::Result<String> {
    inline_command(port, "PING", |reply| reply.contains("\r\n")).map(|reply| reply.trim_end().to_owned())
}

/// Sends an inline command and reads until `is_complete` accepts the reply.
fn inline_command(port: u16, command: &str, is_complete: impl Fn(&str) -> bool) -> std::io::Result<String> {
    let timeout = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let (mut reply, mut buffer) = (String::new(), [0; 4096]);
    while !is_complete(&reply) {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 {
            break;
        }
        reply.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp_dir::TempDir;

    /// Sends a command and returns its reply as text.
    fn call(redis: &Redis, command: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port)).expect("a connection");
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("written");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("an answer");
        reply
    }

    #[test]
    fn the_server_never_evicts_and_its_data_survives_a_crash() {
        let temp_dir = TempDir::new().expect("a directory");
        let mut redis = Redis::ephemeral(temp_dir.path()).expect("redis-server");
        assert!(call(&redis, "SET stock 7").starts_with("+OK"));
        assert!(call(&redis, "CONFIG GET maxmemory-policy").contains("noeviction"));
        redis.kill();
        redis.restart().expect("redis-server");
        assert!(call(&redis, "GET stock").starts_with("$1\r\n7"));
    }
}
