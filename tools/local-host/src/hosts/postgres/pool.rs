//! Connection pools, one per component and address.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls::ClientConfig;
use tokio_postgres::{Config, NoTls, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The maximum number of connections per pool, as in Spin.
const POOL_SIZE: usize = 64;
/// The maximum number of pools per component, as in Spin.
const MAX_POOLS: usize = 16;

/// A pooled connection. It returns to its pool when the last clone is dropped.
pub type Client = Arc<Object>;

/// The pools of a component.
pub struct PostgresPools {
    tls: Arc<ClientConfig>,
    pools: Mutex<HashMap<String, Pool>>,
}

impl PostgresPools {
    /// Creates an empty set of pools.
    pub fn new(tls: Arc<ClientConfig>) -> Self {
        Self { tls, pools: Mutex::default() }
    }

    /// Takes a connection to this address from its pool, or opens one.
    ///
    /// # Errors
    /// If the address is malformed or the server cannot be reached.
    pub async fn client(&self, url: &str) -> anyhow::Result<Client> {
        let pool = self.pool(url).context("establishing PostgreSQL connection pool")?;
        Ok(Arc::new(pool.get().await?))
    }

    fn pool(&self, url: &str) -> anyhow::Result<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(url) {
            return Ok(pool.clone());
        }
        let pool = self.create_pool(url)?;
        if pools.len() >= MAX_POOLS {
            // Evicts an arbitrary pool. Its idle connections close; connections in use stay open.
            let evicted = pools.keys().next().cloned();
            evicted.map(|evicted| pools.remove(&evicted));
        }
        pools.insert(url.to_owned(), pool.clone());
        Ok(pool)
    }

    fn create_pool(&self, url: &str) -> anyhow::Result<Pool> {
        let config: Config = url.parse().context("parsing Postgres connection string")?;
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Clean };
        let manager = if config.get_ssl_mode() == SslMode::Disable {
            Manager::from_config(config, NoTls, manager)
        } else {
            Manager::from_config(config, MakeRustlsConnect::new((*self.tls).clone()), manager)
        };
        let pool = Pool::builder(manager).max_size(POOL_SIZE).build();
        pool.context("building Postgres connection pool")
    }
}
