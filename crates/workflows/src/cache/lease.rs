//! Leases in Redis (`lua/lease.lua`), for work that is harmless when done twice (F2). The sweeper's own lease is in the
//! ledger ([`crate::ledger::leases`]).

use crate::{
    ports::{Redis, StoreError},
    script::LEASE,
};

/// Acquires or renews a lease in Redis for `ttl_ms` milliseconds, or releases it with 0. Returns whether `owner` holds the lease now.
///
/// # Errors
/// [`StoreError`] of Redis; the lease may have changed.
pub async fn hold<R: Redis>(redis: &R, key: &str, owner: &str, ttl_ms: i64) -> Result<bool, StoreError> {
    let args = vec![owner.into(), ttl_ms.to_string().into()];
    Ok(LEASE.run(redis, vec![key.to_owned()], args).await?.text()? == "held")
}
