//! Which sales were published: asked where a sale has no gate, to tell one that never was from a Redis that lost it (C3).
//!
//! The ledger is asked once in five seconds, by one for all, however many ids are tried (F3).

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use domain::{
    ids::ActivityId,
    problem::{Code, Problem},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use workflows::{ledger::activities, recovery::sweep};

use crate::{
    activity_cache::random,
    clock,
    http::{ApiError, not_found},
    key_value,
    ledger::SpinLedger,
    redis::SpinRedis,
    ttl_cache::{self, MAX_AGE_MS, TtlCache},
};

/// Where the copy is kept, and the lease of whoever makes a new one.
const COPY_KEY: &str = "published";
const LEASE_KEY: &str = "stampede:published";

/// How long the ledger is not asked again, in milliseconds.
const FRESH_MS: i64 = 5_000;

/// How old a copy may be while somebody else makes a new one, in milliseconds.
const STALE_MS: i64 = 15_000;

/// What those do who find none: look again every 50 ms, up to 500 ms, and then ask themselves.
const POLL: (Duration, usize) = (Duration::from_millis(50), 10);

thread_local! {
    static PUBLISHED: TtlCache<(), Rc<Published>> = RefCell::default();
}

/// Every sale that was published, and when it ends; closed ones have ended in 1970.
#[derive(Serialize, Deserialize)]
struct Published {
    at: Millis,
    ends: BTreeMap<ActivityId, Millis>,
}

/// Why a sale has no gate: it never was, it is over, or Redis does not have it yet, or no more.
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
    let owner = format!("{:032x}", random());
    if !sweep::hold_lease(&SpinRedis, LEASE_KEY, &owner, FRESH_MS).await? {
        for _ in 0..POLL.1 {
            let cached_copy =
                key_value::get(COPY_KEY).await.and_then(|bytes| serde_json::from_slice::<Published>(&bytes).ok());
            if let Some(cached_copy) = cached_copy.filter(|cached_copy| clock::now().0 - cached_copy.at.0 < STALE_MS) {
                return Ok(Rc::new(cached_copy));
            }
            spin_sdk::time::sleep(POLL.0).await;
        }
    }
    let ends = activities::published_end_times(&SpinLedger::open().await).await?;
    let published = Published { at: clock::now(), ends };
    if let Ok(bytes) = serde_json::to_vec(&published) {
        key_value::set(COPY_KEY, &bytes).await;
    }
    Ok(Rc::new(published))
}
