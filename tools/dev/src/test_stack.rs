//! A temporary app for tests, with its own Redis, ledger, secrets and data.

use std::{env, net::SocketAddr};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{
    app::{App, Settings},
    engine::Engine,
    manifest::Manifest,
    ports,
    postgres::Postgres,
    redis::Redis,
    root,
    variables::Variables,
};

/// A running app and its servers.
///
/// Fields are dropped in order: the app ends first, the directory is removed last.
pub struct TestStack {
    /// The app.
    pub app: App,
    /// Its Redis.
    pub redis: Redis,
    /// Its PostgreSQL, if `STAMPEDE_LEDGER` is `postgres`.
    pub postgres: Option<Postgres>,
    /// The directory of all data.
    pub temp_dir: TempDir,
}

impl TestStack {
    /// Starts the servers and the app. `configure` may change the variables before the app starts.
    ///
    /// Returns when the app serves requests. It may not be ready yet: see [`TestStack::wait_until_ready`].
    pub fn start(configure: impl FnOnce(&mut Variables)) -> Result<Self> {
        Self::start_with(&[], |settings| configure(&mut settings.variables))
    }

    /// Like [`TestStack::start`], with additional Redis settings. `configure` may change all of the app's
    /// settings before it starts.
    pub fn start_with(redis_settings: &[&str], configure: impl FnOnce(&mut Settings)) -> Result<Self> {
        let temp_dir = TempDir::with_prefix("stampede-")?;
        // With `appendfsync no` every acknowledged write is in the file, so it survives a killed server. With
        // `everysec` Redis may acknowledge first and write later, while a slow disk delays an fsync.
        let redis_settings = [&["--appendfsync", "no"], redis_settings].concat();
        let redis = Redis::start_with(&temp_dir.path().join("redis"), ports::pick_unused()?, None, &redis_settings)?;
        let postgres = match env::var("STAMPEDE_LEDGER").as_deref() {
            Ok("postgres") => Some(Postgres::ephemeral()?),
            _ => None,
        };
        let mut variables = Variables::generate()?;
        variables.set_redis(&redis.url())?;
        variables.set_ledger(&postgres.as_ref().map_or("sqlite".to_owned(), Postgres::url))?;
        let listen = SocketAddr::from(([127, 0, 0, 1], ports::pick_unused()?));
        variables.set_shop_url(listen);
        let directory = temp_dir.path().join("state");
        let mut settings = Settings::new(root::find()?, Engine::discover(None)?, listen, directory, variables);
        configure(&mut settings);
        let app = App::start(settings)?;
        Ok(Self { app, redis, postgres, temp_dir })
    }

    /// Waits until the app is ready and its order writer has subscribed: a doorbell before that is lost.
    ///
    /// With selected components it does not wait for a subscription: the order writer may not be among them.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        self.app.wait_until_ready()?;
        let settings = self.app.settings();
        if !settings.components.is_empty() {
            return Ok(());
        }
        let manifest = Manifest::read_file(&settings.root.join(&settings.manifest))?;
        let subscribed = manifest.channels().try_for_each(|channel| self.redis.wait_for_subscriber(channel));
        subscribed.with_context(|| format!("the app wrote:\n{}", self.app.output()))
    }
}
