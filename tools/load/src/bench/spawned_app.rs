//! An app that the benchmark builds, starts with fresh data, and stops at the end.

use anyhow::Result;
use dev::engine::Engine;
use dev::test_stack::TestStack;
use dev::{build, root};
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

    /// Whether the ledger is PostgreSQL.
    pub fn uses_postgres(&self) -> bool {
        self.app.postgres.is_some()
    }

    /// The last output of the app, for an error message.
    pub fn output(&self) -> String {
        self.app.app.output()
    }
}
