//! Connection pools, one per component, address and root certificate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio_postgres::{Config, NoTls, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::hosts::http::tls_config;

/// The maximum number of connections per pool, as in Spin.
const POOL_SIZE: usize = 64;
/// The maximum number of pools per component, as in Spin.
const MAX_POOLS: usize = 16;

/// A pooled connection. It returns to its pool when the last clone is dropped.
pub type Client = Arc<Object>;

/// The pools of a component.
pub struct PostgresPools {
    tls: Arc<ClientConfig>,
    pools: Mutex<HashMap<PoolKey, Pool>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    url: String,
    root_certificate: Option<String>,
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
    pub async fn client(&self, url: &str, root_certificate: Option<&str>) -> anyhow::Result<Client> {
        let pool = self.pool(url, root_certificate).context("establishing PostgreSQL connection pool")?;
        Ok(Arc::new(pool.get().await?))
    }

    fn pool(&self, url: &str, root_certificate: Option<&str>) -> anyhow::Result<Pool> {
        let key = PoolKey { url: url.to_owned(), root_certificate: root_certificate.map(str::to_owned) };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&key) {
            return Ok(pool.clone());
        }
        let pool = self.create_pool(&key)?;
        if pools.len() >= MAX_POOLS {
            // Evicts an arbitrary pool. Its idle connections close; connections in use stay open.
            let evicted = pools.keys().next().cloned();
            evicted.map(|evicted| pools.remove(&evicted));
        }
        pools.insert(key, pool.clone());
        Ok(pool)
    }

    fn create_pool(&self, key: &PoolKey) -> anyhow::Result<Pool> {
        let config: Config = key.url.parse().context("parsing Postgres connection string")?;
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Clean };
        let manager = if config.get_ssl_mode() == SslMode::Disable {
            Manager::from_config(config, NoTls, manager)
        } else {
            let tls = match &key.root_certificate {
                Some(certificate) => tls_config(parse_certificates(certificate)?)?,
                None => self.tls.clone(),
            };
            Manager::from_config(config, MakeRustlsConnect::new((*tls).clone()), manager)
        };
        let pool = Pool::builder(manager).max_size(POOL_SIZE).build();
        pool.context("building Postgres connection pool")
    }
}

/// Parses the root certificates (PEM) that a component gives: one at least.
pub fn parse_certificates(pem: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>()?;
    anyhow::ensure!(!found.is_empty(), "there is no certificate in it");
    Ok(found)
}
