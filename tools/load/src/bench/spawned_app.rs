//! An app of the benchmark's own: built, started with fresh data, and gone afterwards.

use anyhow::Result;
use dev::engine::Engine;
use dev::test_stack::TestStack;
use dev::{build, root};
use nix::sys::signal::Signal;

use crate::target::TargetOptions;

/// A running app; it ends when this is dropped.
pub struct SpawnedApp {
    app: TestStack,
}

impl SpawnedApp {
    /// Builds what is missing (unless told to run what is there) and starts it.
    pub fn start(build: bool) -> Result<Self> {
        if build {
            build::all(&root::find()?, &Engine::discover(None)?)?;
        }
        // As `scripts/up` and the kits run Redis.
        let mut app = TestStack::start_with(&["--appendfsync", "everysec"], |_| {})?;
        app.wait_until_ready()?;
        Ok(Self { app })
    }

    /// Where it answers, and its secrets.
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

    /// Stops the order writer's process for as long as `held`, so that a backlog can grow.
    pub fn pause_writer(&self, paused: bool) -> Result<()> {
        self.app.app.signal_trigger("redis", if paused { Signal::SIGSTOP } else { Signal::SIGCONT })
    }

    /// Bytes that its Redis uses.
    pub fn redis_memory(&self) -> Result<u64> {
        self.app.redis.used_memory()
    }

    /// Whether its ledger is PostgreSQL.
    pub fn uses_postgres(&self) -> bool {
        self.app.postgres.is_some()
    }

    /// What the app has written last, for an error message.
    pub fn output(&self) -> String {
        self.app.app.output()
    }
}
