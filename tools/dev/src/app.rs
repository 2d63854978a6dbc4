//! Runs the app on an engine, with its own data directory and variables.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    engine::{Engine, target_directory},
    http::Client,
    manifest::Manifest,
    open_files,
    poll::{self, Probe},
    process::Process,
    variables::Variables,
};

/// Maximum time until the app serves requests. The first start compiles every component.
pub const START_TIMEOUT: Duration = Duration::from_secs(300);

/// How many requests an instance serves. The engine's default of 128 makes each route slower (docs/performance.md).
const MAX_INSTANCE_REUSE_COUNT: &str = "8192";

/// How to start the app.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The project's directory.
    pub root: PathBuf,
    /// The engine.
    pub engine: Engine,
    /// The address to listen on; port 0 picks a free port.
    pub listen: SocketAddr,
    /// Directory of the key-value data, the SQLite ledger and the engine's logs.
    pub directory: PathBuf,
    /// The app's variables.
    pub variables: Variables,
    /// A file that the output is also written to.
    pub log: Option<PathBuf>,
    /// Path of the manifest, relative to the project's directory.
    pub manifest: PathBuf,
    /// Ids of the components to run; empty for all.
    pub components: Vec<String>,
    /// The limit of connections to Redis, and of those to PostgreSQL, for each of the engine's processes.
    pub max_connections: Option<usize>,
    /// Additional environment variables of the engine.
    pub environment: Vec<(String, String)>,
}

impl Settings {
    /// Settings for the whole app of the project at `root`.
    pub fn new(root: PathBuf, engine: Engine, listen: SocketAddr, directory: PathBuf, variables: Variables) -> Self {
        Self {
            root,
            engine,
            listen,
            directory,
            variables,
            log: None,
            manifest: "spin.toml".into(),
            components: vec![],
            max_connections: None,
            environment: vec![],
        }
    }

    /// Path of the ledger's SQLite file.
    pub fn ledger_file(&self) -> PathBuf {
        self.directory.join("ledger.db")
    }

    /// Starts the engine without waiting until it serves.
    pub fn spawn(&self) -> Result<Process> {
        open_files::raise_open_file_limit();
        let directory = std::path::absolute(&self.directory)?;
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let config = directory.join("runtime-config.toml");
        fs::write(&config, runtime_config(&directory, self.max_connections))
            .with_context(|| format!("cannot write {}", config.display()))?;
        let program = self.engine.program(&target_directory(&self.root));
        let mut command = Command::new(&program);
        // Not the project: a developer's `.env` there is for `spin up`.
        command.current_dir(&directory).args(["up", "-f"]).arg(self.root.join(&self.manifest));
        command.args(self.components.iter().flat_map(|id| ["-c", id]));
        // Spin's Redis trigger does not know the options of the HTTP trigger.
        if self.components.is_empty() || self.components != Manifest::read(&self.root)?.components_for("redis") {
            command.args(["--listen", &self.listen.to_string()]);
            command.args(["--max-instance-reuse-count", MAX_INSTANCE_REUSE_COUNT]);
        }
        command.arg("--state-dir").arg(&directory).arg("--runtime-config-file").arg(&config);
        self.variables.apply_to(&mut command);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Process::spawn("the app", &mut command, self.log.as_deref())
    }
}

/// A runtime configuration that keeps all stores in files of `directory`.
fn runtime_config(directory: &Path, max_connections: Option<usize>) -> String {
    let path = |file: &str| toml::Value::String(directory.join(file).to_string_lossy().into_owned());
    let (key_value, ledger) = (path("key-value.db"), path("ledger.db"));
    let limits = max_connections.map_or(String::new(), |max| {
        format!("\n[outbound_pg]\nmax_connections = {max}\n\n[outbound_redis]\nmax_connections = {max}\n")
    });
    format!(
        "[key_value_store.default]\ntype = \"spin\"\npath = {key_value}\n\n\
         [sqlite_database.default]\ntype = \"spin\"\npath = {ledger}\n{limits}"
    )
}

/// Returns the URL in the engine's start-up line `Serving http://…`.
pub fn parse_serving_line(line: &str) -> Option<String> {
    let url = line.strip_prefix("Serving ")?;
    url.starts_with("http://").then(|| url.trim_end_matches('/').to_owned())
}

/// A running app.
pub struct App {
    settings: Settings,
    process: Process,
    url: String,
}

impl App {
    /// Starts the app and waits until it serves requests. It may not be ready yet.
    pub fn start(settings: Settings) -> Result<Self> {
        let mut process = settings.spawn()?;
        let url = process.wait_for_line("the line `Serving http://…`", START_TIMEOUT, parse_serving_line)?;
        Ok(Self { settings, process, url })
    }

    /// The app's URL, `http://host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The settings it was started with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The variables of its next start.
    pub fn variables_mut(&mut self) -> &mut Variables {
        &mut self.settings.variables
    }

    /// The engine's process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The last lines of its output.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Waits until `GET /readyz` returns `200`.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let client = Client::new(&self.url, Duration::from_secs(10));
        let token = self.settings.variables.get("metrics_token");
        let ready = poll::until("GET /readyz to answer 200", START_TIMEOUT, || {
            if let Some(status) = self.process.exited() {
                bail!("the app ended with {status}");
            }
            Ok(match client.send("GET", "/readyz", token, &Value::Null) {
                Ok(response) if response.status == 200 => Probe::Ready(()),
                Ok(response) => Probe::Pending(format!("{} {}", response.status, response.body)),
                Err(error) => Probe::Pending(format!("{error:#}")),
            })
        });
        ready.with_context(|| format!("the app wrote:\n{}", self.output()))
    }

    /// Sends a signal to the process of one trigger type (`http` or `redis`). Both engines run one process for each
    /// type.
    pub fn signal_trigger(&self, kind: &str, signal: Signal) -> Result<()> {
        let signalled = self.process.signal_members(&format!("trigger {kind}"), signal);
        ensure!(signalled > 0, "the engine runs no process for the {kind} trigger");
        Ok(())
    }

    /// Processor time that the process of one trigger type (`http` or `redis`) has used; `None` where the system does not
    /// show it.
    pub fn cpu_time(&self, kind: &str) -> Option<Duration> {
        self.process.cpu_time(&format!("trigger {kind}"))
    }

    /// Kills every process at once, as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills the app and starts it again at the same address with the same data.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        let address = self.url.trim_start_matches("http://");
        self.settings.listen = address.parse().with_context(|| format!("{address} is not an address"))?;
        self.process = self.settings.spawn()?;
        self.url = self.process.wait_for_line("the line `Serving http://…`", START_TIMEOUT, parse_serving_line)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_up_line_names_the_address() {
        assert_eq!(parse_serving_line("Serving http://127.0.0.1:3000").as_deref(), Some("http://127.0.0.1:3000"));
        assert_eq!(parse_serving_line("  admin: http://127.0.0.1:3000/api/admin/..."), None);
        assert_eq!(parse_serving_line("Serving hope"), None);
    }

    #[test]
    fn the_stores_are_files_in_the_directory() {
        let config: toml::Table = runtime_config(Path::new("/tmp/a \"b\""), Some(3)).parse().expect("TOML");
        assert_eq!(config["sqlite_database"]["default"]["path"].as_str(), Some("/tmp/a \"b\"/ledger.db"));
        assert_eq!(config["key_value_store"]["default"]["type"].as_str(), Some("spin"));
        assert_eq!(config["outbound_redis"]["max_connections"].as_integer(), Some(3));
    }
}
