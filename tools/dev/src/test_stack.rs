//! A whole Stampede that is gone afterwards: the app, a Redis, secrets and data of its own.

use std::{env, net::SocketAddr};

use anyhow::{Context, Result};

use crate::{
    app::{App, Settings},
    engine::Engine,
    manifest::Manifest,
    ports,
    postgres::Postgres,
    redis::Redis,
    root,
    temp_dir::TempDir,
    variables::Variables,
};

/// Ends in the order of its fields: the app first, the directory last.
pub struct TestStack {
    /// The app.
    pub app: App,
    /// Its Redis.
    pub redis: Redis,
    /// Its PostgreSQL, when `STAMPEDE_LEDGER` is `postgres`.
    pub postgres: Option<Postgres>,
    /// Where everything is kept.
    pub temp_dir: TempDir,
}

impl TestStack {
    /// Starts one; `adjust` may change the variables before the app sees them.
    ///
    /// # Errors
    /// When Redis or the app does not come up.
    pub fn start(configure: impl FnOnce(&mut Variables)) -> Result<Self> {
        Self::start_with(&[], |settings| configure(&mut settings.variables))
    }

    /// The same with a Redis with more settings; `adjust` may change all of the app's.
    ///
    /// # Errors
    /// As [`Throwaway::start`].
    pub fn start_with(redis_settings: &[&str], configure: impl FnOnce(&mut Settings)) -> Result<Self> {
        let temp_dir = TempDir::new()?;
        // What Redis has answered is in its file: with `everysec` it answers first while the disk is busy.
        let redis_settings = [&["--appendfsync", "no"], redis_settings].concat();
        let redis = Redis::start_with(&temp_dir.path().join("redis"), ports::pick_unused()?, None, &redis_settings)?;
        let postgres = match env::var("STAMPEDE_LEDGER").as_deref() {
            Ok("postgres") => Some(Postgres::ephemeral()?),
            _ => None,
        };
        let mut variables = Variables::generate()?;
        variables.set_redis(&redis.url())?;
        variables.set_ledger(&postgres.as_ref().map_or("sqlite".to_owned(), Postgres::url))?;
        let mut settings = Settings {
            root: root::find()?,
            engine: Engine::discover(None)?,
            listen: SocketAddr::from(([127, 0, 0, 1], ports::pick_unused()?)),
            directory: temp_dir.path().join("state"),
            variables,
            log: None,
            manifest: "spin.toml".into(),
            components: vec![],
            environment: vec![],
        };
        configure(&mut settings);
        let app = App::start(settings)?;
        Ok(Self { app, redis, postgres, temp_dir })
    }

    /// Waits until the app is ready, and its order writer listens: what rings before that is not heard.
    ///
    /// # Errors
    /// What it waits for, and the app's output.
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
