//! A whole Stampede that is gone afterwards: the app, a Redis, secrets and data of its own.

use std::{env, net::SocketAddr};

use anyhow::Result;

use crate::{
    app::{App, Settings},
    engine::Engine,
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
        let redis = Redis::start_with(&scratch.path().join("redis"), ports::free()?, None, redis_settings)?;
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
}
