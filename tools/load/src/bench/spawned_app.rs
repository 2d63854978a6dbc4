//! An app that the benchmark builds, starts with fresh data, and stops at the end.

use anyhow::Result;
use dev::app::{App, Settings};
use dev::engine::Engine;
use dev::test_stack::TestStack;
use dev::{build, ports, root};
use nix::sys::signal::Signal;

use crate::target::TargetOptions;

/// A running app. Dropping it stops the app.
pub struct SpawnedApp {
    app: TestStack,
}

impl SpawnedApp {
    /// Starts the app; with `build`, builds what is missing first.
    pub fn start(build: bool) -> Result<Self> {
        if build {
            build::all(&root::find()?, &Engine::discover(None)?)?;
        }
        // The setting that `scripts/up` and the deployment kits use.
        let mut app = TestStack::start_with(&["--appendfsync", "everysec"], |_| {})?;
        app.wait_until_ready()?;
        Ok(Self { app })
    }

    /// Sets the URL and the secrets of this app in `target`.
    pub fn configure(&self, target: &mut TargetOptions) {
        let variables = &self.app.app.settings().variables;
        let get = |name| Some(variables.get(name).to_owned());
        target.url = Some(self.app.app.url().to_owned());
        target.admin_token = get("admin_token");
        target.cron_token = get("cron_token");
        target.jwt_key = get("jwt_key");
        target.jwt_issuer = get("jwt_issuer");
        target.jwt_audience = get("jwt_audience");
    }

    /// Stops (`true`) or continues (`false`) the order writer's process. While it is stopped, the queue grows.
    pub fn pause_writer(&self, paused: bool) -> Result<()> {
        self.app.app.signal_trigger("redis", if paused { Signal::SIGSTOP } else { Signal::SIGCONT })
    }

    /// Memory that the app's Redis uses, in bytes.
    pub fn redis_memory(&self) -> Result<u64> {
        self.app.redis.used_memory()
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

    /// URL of the app's Redis.
    pub fn redis_url(&self) -> String {
        self.app.redis.url()
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
