//! Lists the published activities, to explain why an activity has no gate in Redis (C3).
//!
//! An activity without a gate was never published, has ended and its gate has expired, or Redis lost its data. The list
//! is shared by all instances and read from the ledger once in 5 s, however many ids clients try (F3).

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use domain::{
    ids::ActivityId,
    problem::{Code, Problem},
    time::Millis,
};
use workflows::ledger::activities;

use crate::{
    clock,
    http::{ApiError, not_found},
    ledger::SpinLedger,
    shared_value::SharedValue,
    ttl_cache::{self, TtlCache},
};

const SHARED: SharedValue<'_> = SharedValue {
    key: "published",
    lease_key: "stampede:published",
    lease_ms: 5_000,
    fresh_ms: Some(5_000),
    max_age_ms: 15_000,
    max_wait_ms: 500,
};

/// When each published activity ends; a closed one has the end time 0.
type EndTimes = BTreeMap<ActivityId, Millis>;

thread_local! {
    static PUBLISHED: TtlCache<(), Rc<EndTimes>> = RefCell::default();
}

/// Returns the error for an activity that has no gate in Redis.
///
/// It is `not_found` if the activity was never published, `ended` if it is over, `not_ready` if Redis has not loaded it
/// or has lost it, and [`ApiError::Store`] if the list cannot be read.
pub async fn missing_gate_error(activity: &ActivityId) -> ApiError {
    let published = match ttl_cache::get_or_fetch(&PUBLISHED, (), load).await {
        Ok(published) => published,
        Err(error) => return error,
    };
    match published.get(activity) {
        None => not_found("There is no such sale."),
        Some(end) if *end <= clock::now() => Problem::new(Code::Ended, "The sale has ended.").into(),
        Some(_) => {
            let detail = "The sale is not loaded. An operator must publish it.";
            Problem::new(Code::NotReady, detail).retry_after(2).into()
        }
    }
}

async fn load() -> Result<Rc<EndTimes>, ApiError> {
    let fetch = async || activities::published_end_times(&SpinLedger::open().await).await;
    Ok(Rc::new(SHARED.get(|_| true, fetch).await?))
}
