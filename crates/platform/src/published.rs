//! Lists the published activities, to explain why an activity has no gate in Redis (C3).
//!
//! An activity without a gate was never published, has ended and its gate has expired, or Redis lost its data. A lease
//! lets one request in 5 s read the list from the ledger and copy it to key-value, however many ids clients try (F3);
//! the others use the copy, and read the ledger only if none appears within 500 ms.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use domain::{
    ids::ActivityId,
    problem::{Code, Problem},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use workflows::{cache::lease, ledger::activities};

use crate::{
    clock,
    http::{ApiError, not_found},
    key_value,
    ledger::SpinLedger,
    random,
    redis::SpinRedis,
    ttl_cache::{self, MAX_AGE_MS, TtlCache},
};

/// The key of the copy in key-value, and the Redis key of the lease to replace it.
const COPY_KEY: &str = "published";
const LEASE_KEY: &str = "stampede:published";

/// How long the lease lasts, in milliseconds. It is not released: until it expires, other requests use the copy that
/// its holder writes.
const LEASE_MS: i64 = 5_000;

/// Maximum age of a copy that other requests use while the lease holder replaces it, in milliseconds.
const MAX_COPY_AGE_MS: i64 = 15_000;

/// Interval at which a request polls for a copy that another request writes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of polls: 500 ms in all. After that the request reads the ledger itself.
const POLL_ATTEMPTS: usize = 10;

thread_local! {
    static PUBLISHED: TtlCache<(), Rc<Published>> = RefCell::default();
}

/// Every published activity and when it ends; a closed one has the end time 0.
#[derive(Serialize, Deserialize)]
struct Published {
    at: Millis,
    ends: BTreeMap<ActivityId, Millis>,
}

/// Returns the error for an activity that has no gate in Redis.
///
/// It is `not_found` if the activity was never published, `ended` if it is over, `not_ready` if Redis has not loaded it
/// or has lost it, and [`ApiError::Store`] if the list cannot be read.
pub async fn missing_gate_error(activity: &ActivityId) -> ApiError {
    let published = match ttl_cache::get_or_fetch(&PUBLISHED, (), MAX_AGE_MS, load).await {
        Ok(published) => published,
        Err(error) => return error,
    };
    match published.ends.get(activity) {
        None => not_found("There is no such sale."),
        Some(end) if *end <= clock::now() => Problem::new(Code::Ended, "The sale has ended.").into(),
        Some(_) => {
            let detail = "The sale is not loaded. An operator must publish it.";
            Problem::new(Code::NotReady, detail).retry_after(2).into()
        }
    }
}

async fn load() -> Result<Rc<Published>, ApiError> {
    let owner = format!("{:032x}", random::bits());
    if !lease::hold(&SpinRedis, LEASE_KEY, &owner, LEASE_MS).await? {
        for _ in 0..POLL_ATTEMPTS {
            let cached_copy =
                key_value::get(COPY_KEY).await.and_then(|bytes| serde_json::from_slice::<Published>(&bytes).ok());
            if let Some(cached_copy) =
                cached_copy.filter(|cached_copy| clock::now().0 - cached_copy.at.0 < MAX_COPY_AGE_MS)
            {
                return Ok(Rc::new(cached_copy));
            }
            spin_sdk::time::sleep(POLL_INTERVAL).await;
        }
    }
    let ends = activities::published_end_times(&SpinLedger::open().await).await?;
    let published = Published { at: clock::now(), ends };
    if let Ok(bytes) = serde_json::to_vec(&published) {
        key_value::set(COPY_KEY, &bytes).await;
    }
    Ok(Rc::new(published))
}
