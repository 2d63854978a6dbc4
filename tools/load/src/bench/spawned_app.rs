//! An app and the floors beside it that the benchmark builds, starts with fresh data, and stops at the end.

use std::time::Duration;

use anyhow::Result;
use dev::{
    app::{App, Settings},
    engine::Engine,
    ports,
    process::machine_cpu_time,
    test_stack::TestStack,
};
use nix::sys::signal::Signal;

use crate::{
    sign_in::{BuyerTokens, JwtSettings},
    target::Target,
};

/// The manifest of the floors, relative to the project's directory.
const FLOORS_MANIFEST: &str = "tools/floors/spin.toml";

/// A running app, and the floors on the same engine with the same Redis. Dropping it stops both.
pub struct SpawnedApp {
    floors: App,
    app: TestStack,
}

/// Processor time used so far.
#[derive(Debug, Clone, Copy)]
pub struct CpuTimes {
    /// Everything on this machine, the kernel's network included.
    pub machine: Duration,
    /// The engine's process that serves HTTP.
    pub engine: Duration,
    /// The engine's process that runs the order writer.
    pub writer: Duration,
    pub redis: Duration,
}

impl SpawnedApp {
    /// Starts both.
    pub fn start() -> Result<Self> {
        // The setting that `scripts/up` and the deployment kits use.
        let mut app = TestStack::start_with(&["--appendfsync", "everysec"], |_| {})?;
        app.wait_until_ready()?;
        let floors = App::start(Settings {
            manifest: FLOORS_MANIFEST.into(),
            listen: ([127, 0, 0, 1], ports::pick_unused()?).into(),
            directory: app.temp_dir.path().join("floors"),
            ..app.app.settings().clone()
        })?;
        Ok(Self { floors, app })
    }

    /// The app with its secrets.
    pub fn target(&self) -> Target {
        let variables = &self.app.app.settings().variables;
        let get = |name| variables.get(name).to_owned();
        Target {
            url: self.app.app.url().to_owned(),
            admin_token: get("admin_token"),
            cron_token: Some(get("cron_token")),
            tokens: Some(BuyerTokens::Signed(Box::new(JwtSettings::shared_key(
                &get("jwt_key"),
                get("jwt_issuer"),
                get("jwt_audience"),
            )))),
            webhook_secret: Some(get("webhook_secrets")),
        }
    }

    /// URL of the floors.
    pub fn floors_url(&self) -> &str {
        self.floors.url()
    }

    /// Processor time of the app, or of the `floors`, of Redis, and of all; `None` where the system does not show it.
    pub fn cpu_times(&self, floors: bool) -> Option<CpuTimes> {
        let engine = if floors { &self.floors } else { &self.app.app };
        Some(CpuTimes {
            machine: machine_cpu_time()?,
            engine: engine.cpu_time("http")?,
            writer: self.app.app.cpu_time("redis")?,
            redis: self.app.redis.cpu_time().ok()?,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.app.app.settings().engine
    }

    /// Stops (`true`) or continues (`false`) the order writer's process. While it is stopped, the queue grows.
    pub fn pause_writer(&self, paused: bool) -> Result<()> {
        self.app.app.signal_trigger("redis", if paused { Signal::SIGSTOP } else { Signal::SIGCONT })
    }

    /// Starts another app process with the same stores. With SQLite it shares all files; with PostgreSQL it has its own
    /// key-value store, as on another machine.
    pub fn start_another_process(&self, number: usize) -> Result<App> {
        let settings = self.app.app.settings().clone();
        let directory = match self.uses_postgres() {
            true => self.app.temp_dir.path().join(format!("state-{number}")),
            false => settings.directory.clone(),
        };
        let listen = ([127, 0, 0, 1], ports::pick_unused()?).into();
        let mut app = App::start(Settings { directory, listen, ..settings })?;
        app.wait_until_ready()?;
        Ok(app)
    }

    /// Whether the ledger is PostgreSQL.
    pub fn uses_postgres(&self) -> bool {
        self.app.postgres.is_some()
    }

    /// The last output of the app, for an error message.
    pub fn output(&self) -> String {
        self.app.app.output()
    }
}
