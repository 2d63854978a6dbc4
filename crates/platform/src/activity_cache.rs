//! Published activities for readers, cached in instance memory and key-value (F1, F2, F3, F4).
//!
//! The gate comes from Redis and is less than a second old. The spec comes from instance memory, then key-value, then
//! the ledger; a key-value copy of another version than the gate's is not used.

use std::{cell::RefCell, rc::Rc};

use domain::ids::ActivityId;
use sale::{
    ledger::activities,
    read_gate,
    visitors::{CachedActivity, CachedGate},
};
use stores::shared_value::{self, SharedValue};

use crate::{
    clock,
    http::{ApiError, not_found},
    key_value::SpinKeyValue,
    ledger::SpinLedger,
    lru_map::LruMap,
    published_list,
    redis::SpinRedis,
    single_flight::Cached,
};

thread_local! {
    static GATES: RefCell<LruMap<ActivityId, Cached<Rc<CachedGate>>>> = RefCell::default();
    static ACTIVITIES: RefCell<LruMap<ActivityId, Cached<Option<Rc<CachedActivity>>>>> = RefCell::default();
}

/// Returns the gate and the stock left, less than a second old.
///
/// A missing gate is not cached here. A cache in front of the app may serve the 404 for its `s-maxage` (nginx: up to two
/// seconds).
///
/// # Errors
/// [`ApiError::Store`] if Redis cannot be read. Without a gate, the errors of [`published_list::missing_gate_error`].
pub async fn gate(activity: &ActivityId) -> Result<Rc<CachedGate>, ApiError> {
    let read = async || {
        let snapshot = read_gate::read_gate(&SpinRedis, activity).await.map_err(Some)?.ok_or(None)?;
        Ok(Rc::new(CachedGate { snapshot, read_at: clock::now() }))
    };
    match GATES.with_borrow_mut(|gates| gates.get(activity)).get_or_fetch(read).await {
        Ok(gate) => Ok(gate),
        Err(Some(error)) => Err(ApiError::Store(error)),
        Err(None) => Err(published_list::missing_gate_error(activity).await),
    }
}

/// Returns a published activity, from the caches that the module's documentation lists.
///
/// # Errors
/// Those of [`gate`]; `not_found` if the ledger has no such activity; [`ApiError::Store`] if Redis is unavailable, or
/// the ledger is and there is no key-value copy of this version.
pub async fn activity(activity: &ActivityId) -> Result<Rc<CachedActivity>, ApiError> {
    let version = gate(activity).await?.snapshot.version;
    let cached = ACTIVITIES.with_borrow_mut(|activities| activities.get(activity));
    let found = cached.get_or_fetch(async || load(activity, version).await).await?;
    found.ok_or_else(|| not_found("There is no such sale."))
}

/// Returns the key-value copy of an activity; `None` if there is none, or [visitors may not see
/// it](CachedActivity::may_be_shown).
pub async fn cached(activity: &ActivityId) -> Option<Rc<CachedActivity>> {
    let key = CachedActivity::key(activity);
    let cached_copy: Option<CachedActivity> = shared_value::last::<_, Option<_>>(&SpinKeyValue, &key).await?;
    cached_copy.filter(|cached| cached.may_be_shown(clock::now())).map(Rc::new)
}

/// Loads the activity from key-value if the copy is fresh, else from the ledger. A copy of another version than the
/// gate's may predate an operator's change, so it is not used.
async fn load(activity: &ActivityId, version: i64) -> Result<Option<Rc<CachedActivity>>, ApiError> {
    let shared = SharedValue {
        key: &CachedActivity::key(activity),
        lease_key: &format!("{{{activity}}}:rebuild"),
        lease_ms: 3_000,
        fresh_ms: Some(60_000),
        max_age_ms: i64::MAX,
        max_wait_ms: 500,
    };
    let fetch = async || {
        let found = activities::load(&SpinLedger::open().await, activity).await?;
        Ok(found.map(CachedActivity::from))
    };
    let is_current = |cached: &Option<CachedActivity>| cached.as_ref().is_some_and(|cached| cached.version == version);
    Ok(shared.get(&SpinRedis, &SpinKeyValue, is_current, fetch).await?.map(Rc::new))
}
