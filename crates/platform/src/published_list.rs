//! Lists the published activities, to explain why an activity has no gate in Redis (C3).
//!
//! The list is shared by all instances and read from the ledger once in `SHARED.fresh_ms`, however many ids clients
//! try (F3).

use std::rc::Rc;

use domain::ids::ActivityId;
use sale::{
    ledger::activities,
    published::{EndTimes, missing_gate_problem},
};
use stores::shared_value::SharedValue;

use crate::{
    clock, http::ApiError, key_value::SpinKeyValue, ledger::SpinLedger, redis::SpinRedis, single_flight::Cached,
};

const SHARED: SharedValue<'_> = SharedValue {
    key: "published",
    lease_key: "stampede:published",
    lease_ms: 5_000,
    fresh_ms: Some(5_000),
    max_age_ms: 15_000,
    max_wait_ms: 500,
};

thread_local! {
    static PUBLISHED: Rc<Cached<Rc<EndTimes>>> = Rc::default();
}

/// Returns the error for an activity that has no gate in Redis: see [`missing_gate_problem`]; [`ApiError::Store`] if the
/// list cannot be read.
pub async fn missing_gate_error(activity: &ActivityId) -> ApiError {
    match PUBLISHED.with(Rc::clone).get_or_fetch(load).await {
        Ok(published) => missing_gate_problem(&published, activity, clock::now()).into(),
        Err(error) => error,
    }
}

async fn load() -> Result<Rc<EndTimes>, ApiError> {
    let fetch = async || activities::published_end_times(&SpinLedger::open().await).await;
    Ok(Rc::new(SHARED.get(&SpinRedis, &SpinKeyValue, |_| true, fetch).await?))
}
