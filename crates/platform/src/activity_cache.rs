//! Published activities for readers, cached in instance memory and key-value (F1–F4).
//!
//! The gate comes from Redis and is less than a second old. The spec comes from instance memory, then key-value, then
//! the ledger; a key-value copy of another version than the gate's is not used. One request at a time refreshes the
//! key-value copy; the others use the stale copy or wait.

use std::{cell::RefCell, rc::Rc, time::Duration};

use domain::{
    activity::{ActivitySpec, ActivityState},
    ids::ActivityId,
    time::Millis,
};
use serde::{Deserialize, Serialize};
use workflows::{
    StoreError,
    cache::lease,
    hot::read_gate::{self, GateSnapshot},
    ledger::activities,
};

use crate::{
    clock,
    http::{ApiError, not_found},
    key_value,
    ledger::SpinLedger,
    published, random,
    redis::SpinRedis,
    ttl_cache::{self, MAX_AGE_MS, TtlCache},
};

/// How long a key-value copy is fresh, in milliseconds; up to 10 s of jitter are added.
const FRESH_MS: i64 = 60_000;

/// How long one request may hold the lease to refresh a key-value copy, in milliseconds.
const REFRESH_LEASE_MS: i64 = 3_000;

/// Interval at which a request polls for a copy that another request refreshes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of polls: 500 ms in all. After that the request refreshes the copy itself.
const POLL_ATTEMPTS: usize = 10;

thread_local! {
    static GATES: TtlCache<ActivityId, Option<Rc<CachedGate>>> = RefCell::default();
    static ACTIVITIES: TtlCache<ActivityId, Option<Rc<CachedActivity>>> = RefCell::default();
}

/// An activity's spec and state as stored in key-value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CachedActivity {
    /// The activity's id.
    pub id: ActivityId,
    /// The spec: times, rules and SKUs.
    pub spec: ActivitySpec,
    /// The version of the activity, to be compared with the gate's.
    pub version: i64,
    /// The activity's state in its text form.
    state: String,
    /// When the copy becomes stale, by the clock of the instance that wrote it.
    fresh_until: Millis,
}

impl CachedActivity {
    /// The state that operators set; [`ActivityState::Draft`] if the text is unknown.
    #[must_use]
    pub fn state(&self) -> ActivityState {
        ActivityState::parse(&self.state).unwrap_or(ActivityState::Draft)
    }
}

/// Returns the gate and the stock left, less than a second old.
///
/// A missing gate is not cached, so an activity is visible as soon as it is published.
///
/// # Errors
/// [`ApiError::Store`] if Redis cannot be read. Without a gate, the errors of [`published::missing_gate_error`].
pub async fn gate(activity: &ActivityId) -> Result<Rc<CachedGate>, ApiError> {
    let found = ttl_cache::get_or_fetch(&GATES, activity.clone(), MAX_AGE_MS, async || {
        let snapshot = read_gate::read_gate(&SpinRedis, activity).await?;
        Ok::<_, ApiError>(snapshot.map(|snapshot| Rc::new(CachedGate { snapshot, read_at: clock::now() })))
    })
    .await?;
    match found {
        Some(cached_gate) => Ok(cached_gate),
        None => {
            GATES.with_borrow_mut(|cache| cache.remove(activity));
            Err(published::missing_gate_error(activity).await)
        }
    }
}

/// Returns a published activity, from the caches that the module's documentation lists.
///
/// # Errors
/// Those of [`gate`]; `not_found` if the ledger has no such activity; [`ApiError::Store`] if Redis is unavailable, or
/// the ledger is and there is no key-value copy of this version.
pub async fn activity(activity: &ActivityId) -> Result<Rc<CachedActivity>, ApiError> {
    let version = gate(activity).await?.version;
    let found =
        ttl_cache::get_or_fetch(&ACTIVITIES, activity.clone(), MAX_AGE_MS, async || load(activity, version).await)
            .await?;
    found.ok_or_else(|| not_found("There is no such sale."))
}

/// Returns the key-value copy of an activity, however old; `None` if there is none or it is a draft's.
pub async fn cached(activity: &ActivityId) -> Option<Rc<CachedActivity>> {
    let cached_copy =
        key_value::get(&key(activity)).await.and_then(|bytes| serde_json::from_slice::<CachedActivity>(&bytes).ok());
    cached_copy.filter(|cached| cached.state() != ActivityState::Draft).map(Rc::new)
}

fn key(activity: &ActivityId) -> String {
    format!("sale:{activity}")
}

/// Loads the activity from key-value if the copy is fresh, else from the ledger.
///
/// The request that gets the lease refreshes the copy; the others use the stale copy, or poll if there is none (F2).
async fn load(activity: &ActivityId, version: i64) -> Result<Option<Rc<CachedActivity>>, ApiError> {
    for _ in 0..POLL_ATTEMPTS {
        // A copy of another version may predate an operator's change, so it is not used.
        let cached_copy = cached(activity).await.filter(|cached_copy| cached_copy.version == version);
        if let Some(cached_copy) = cached_copy.as_ref().filter(|cached_copy| cached_copy.fresh_until > clock::now()) {
            return Ok(Some(cached_copy.clone()));
        }
        let owner = ulid::Ulid::from_parts(clock::now().0.unsigned_abs(), random::bits()).to_string();
        let lease_key = format!("{{{activity}}}:rebuild");
        if lease::hold(&SpinRedis, &lease_key, &owner, REFRESH_LEASE_MS).await? {
            return match (refresh(activity).await, cached_copy) {
                // The stale copy is used while the ledger is unavailable. The lease is not released, so that requests
                // try the ledger once per lease time.
                (Err(ApiError::Store(StoreError::LedgerUnavailable(_))), Some(cached_copy)) => Ok(Some(cached_copy)),
                (refreshed, _) => {
                    lease::release(&SpinRedis, &lease_key, &owner).await.map_err(ApiError::from).and(refreshed)
                }
            };
        }
        if cached_copy.is_some() {
            return Ok(cached_copy);
        }
        spin_sdk::time::sleep(POLL_INTERVAL).await;
    }
    refresh(activity).await
}

async fn refresh(activity: &ActivityId) -> Result<Option<Rc<CachedActivity>>, ApiError> {
    let Some(found) = activities::load(&SpinLedger::open().await, activity).await? else { return Ok(None) };
    // Jitter keeps copies that were written together from becoming stale together (F4).
    let jitter = i64::try_from(random::bits() % 10_000).unwrap_or_default();
    let cached = CachedActivity {
        id: found.id,
        spec: found.spec,
        version: found.version,
        state: found.state.as_str().to_owned(),
        fresh_until: clock::now().plus(FRESH_MS + jitter),
    };
    if let Ok(bytes) = serde_json::to_vec(&cached) {
        key_value::set(&key(activity), &bytes).await;
    }
    Ok(Some(Rc::new(cached)))
}

/// A gate as read from Redis, with the instance's clock at that time.
pub struct CachedGate {
    snapshot: GateSnapshot,
    read_at: Millis,
}

impl std::ops::Deref for CachedGate {
    type Target = GateSnapshot;
    fn deref(&self) -> &GateSnapshot {
        &self.snapshot
    }
}

/// Estimates the time by Redis's clock at the instance's `now`: Redis's time when it read the gate, plus what has
/// passed on the instance's clock since.
#[must_use]
pub fn redis_time(cached_gate: &CachedGate, now: Millis) -> Millis {
    cached_gate.snapshot.now.plus(now.0 - cached_gate.read_at.0)
}
