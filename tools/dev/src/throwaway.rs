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
    scratch::Scratch,
    variables::Variables,
};

/// Ends in the order of its fields: the app first, the directory last.
pub struct Throwaway {
    /// The app.
    pub app: App,
    /// Its Redis.
    pub redis: Redis,
    /// Its PostgreSQL, when `STAMPEDE_LEDGER` is `postgres`.
    pub postgres: Option<Postgres>,
    /// Where everything is kept.
    pub scratch: Scratch,
}

impl Throwaway {
    /// Starts one; `adjust` may change the variables before the app sees them.
    ///
    /// # Errors
    /// When Redis or the app does not come up.
    pub fn start(adjust: impl FnOnce(&mut Variables)) -> Result<Self> {
        Self::start_with(&[], |settings| adjust(&mut settings.variables))
    }

    /// The same with a Redis with more settings; `adjust` may change all of the app's.
    ///
    /// # Errors
    /// As [`Throwaway::start`].
    pub fn start_with(redis_settings: &[&str], adjust: impl FnOnce(&mut Settings)) -> Result<Self> {
        let scratch = Scratch::new()?;
        // What Redis has answered is in its file: with `everysec` it answers first while the disk is busy.
        let redis_settings = [&["--appendfsync", "no"], redis_settings].concat();
        let redis = Redis::start_with(&scratch.path().join("redis"), ports::free()?, None, &redis_settings)?;
        let postgres = match env::var("STAMPEDE_LEDGER").as_deref() {
            Ok("postgres") => Some(Postgres::throwaway()?),
            _ => None,
        };
        let mut variables = Variables::generate()?;
        variables.set_redis(&redis.url())?;
        variables.set_ledger(&postgres.as_ref().map_or("sqlite".to_owned(), Postgres::url))?;
        let mut settings = Settings {
            root: root::find()?,
            engine: Engine::discover(None)?,
            listen: SocketAddr::from(([127, 0, 0, 1], ports::free()?)),
            directory: scratch.path().join("state"),
            variables,
            log: None,
            manifest: "spin.toml".into(),
            components: vec![],
            environment: vec![],
        };
        adjust(&mut settings);
        let app = App::start(settings)?;
        Ok(Self { app, redis, postgres, scratch })
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
        let heard = manifest.channels().try_for_each(|channel| self.redis.wait_for_subscriber(channel));
        heard.with_context(|| format!("the app wrote:\n{}", self.app.output()))
    }
}
