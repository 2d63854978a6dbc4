//! Leases in Redis (`lua/lease.lua`), for work that is harmless when done twice (F2). The sweeper's own lease is in the
//! ledger ([`crate::ledger::leases`]).

use crate::{
    ports::{Redis, StoreError},
    script::Script,
};

/// Acquires or renews a lease in Redis for `ttl_ms` milliseconds; 0 releases it. Returns whether `owner` holds the lease
/// now.
///
/// # Errors
/// [`StoreError`] of Redis; the lease may have changed.
pub async fn hold<R: Redis>(redis: &R, key: &str, owner: &str, ttl_ms: i64) -> Result<bool, StoreError> {
    let args = vec![owner.into(), ttl_ms.to_string().into()];
    LEASE.run(redis, vec![key.to_owned()], args).await?.is("held", "other")
}

/// As [`hold`], for a lease that belongs to no activity: it is free for everybody while its Redis does not answer.
///
/// # Errors
/// `RedisRefused`.
pub async fn hold_or_free<R: Redis>(redis: &R, key: &str, owner: &str, ttl_ms: i64) -> Result<bool, StoreError> {
    match hold(redis, key, owner, ttl_ms).await {
        Err(StoreError::RedisUnavailable(_)) => Ok(true),
        held => held,
    }
}

/// Releases a lease in Redis; the lease of another owner stays. If this fails, the lease expires.
pub async fn release<R: Redis>(redis: &R, key: &str, owner: &str) {
    let _ = hold(redis, key, owner, 0).await;
}

/// Acquires, extends or releases a lease.
pub static LEASE: Script = Script::new("lease", &[include_str!("../lua/lease.lua")]);
