//! Sales as readers see them: instance memory over key-value over the ledger (F1–F4).

use std::{cell::RefCell, rc::Rc, time::Duration};

use domain::{
    activity::{ActivitySpec, ActivityState},
    ids::ActivityId,
    time::Millis,
};
use serde::{Deserialize, Serialize};
use workflows::{
    StoreError,
    hot::read_gate::{self, GateSnapshot},
    ledger::activities,
    recovery::sweep,
};

use crate::{
    clock,
    http::{ApiError, not_found},
    key_value,
    ledger::SpinLedger,
    published,
    redis::SpinRedis,
    ttl_cache::{self, MAX_AGE_MS, TtlCache},
};

/// How long a copy in key-value is taken for fresh, in milliseconds, before jitter.
const FRESH_MS: i64 = 60_000;

/// How long one rebuilder has, in milliseconds.
const REFRESH_LEASE_MS: i64 = 3_000;

/// What those do who find nothing: look again every 50 ms, up to 500 ms.
const POLL: (Duration, usize) = (Duration::from_millis(50), 10);

thread_local! {
    static GATES: TtlCache<ActivityId, Option<Rc<CachedGate>>> = RefCell::default();
    static ACTIVITIES: TtlCache<ActivityId, Option<Rc<CachedActivity>>> = RefCell::default();
}

/// A sale's description, as key-value keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CachedActivity {
    /// Its id.
    pub id: ActivityId,
    /// Its description.
    pub spec: ActivitySpec,
    /// The version of the description.
    pub version: i64,
    /// What operators decided, as a word.
    state: String,
    /// Until when the copy is taken for fresh.
    fresh_until: Millis,
}

impl CachedActivity {
    /// What operators decided.
    #[must_use]
    pub fn state(&self) -> ActivityState {
        ActivityState::parse(&self.state).unwrap_or(ActivityState::Draft)
    }
}

/// The gate and what is left, less than a second old. That there is none is not remembered, so a sale is there the moment
/// it is published.
///
/// # Errors
/// [`Failure`] of Redis; without a gate `not_found`, `ended`, or `not_ready`.
pub async fn gate(activity: &ActivityId) -> Result<Rc<CachedGate>, ApiError> {
    let found = ttl_cache::get_or_fetch(&GATES, activity.clone(), MAX_AGE_MS, async || {
        let snapshot = read_gate::read_gate(&SpinRedis, activity).await?;
        Ok::<_, ApiError>(snapshot.map(|snapshot| Rc::new(CachedGate { snapshot, read_at: clock::now() })))
    })
    .await?;
    match found {
        Some(gate) => Ok(gate),
        None => {
            GATES.with_borrow_mut(|cache| cache.remove(activity));
            Err(published::missing_gate_error(activity).await)
        }
    }
}

/// A published sale's description.
///
/// # Errors
/// [`Failure`] of a store, and those of [`glance`].
pub async fn activity(activity: &ActivityId) -> Result<Rc<CachedActivity>, ApiError> {
    let version = gate(activity).await?.version;
    let found =
        ttl_cache::get_or_fetch(&ACTIVITIES, activity.clone(), MAX_AGE_MS, async || load(activity, version).await)
            .await?;
    found.ok_or_else(|| not_found("There is no such sale."))
}

/// A published sale's description as it was last copied, whatever has become of it since.
pub async fn cached(activity: &ActivityId) -> Option<Rc<CachedActivity>> {
    let cached_copy =
        key_value::get(&key(activity)).await.and_then(|bytes| serde_json::from_slice::<CachedActivity>(&bytes).ok());
    cached_copy.filter(|cached| cached.state() != ActivityState::Draft).map(Rc::new)
}

fn key(activity: &ActivityId) -> String {
    format!("sale:{activity}")
}

/// From key-value where the copy is fresh, else from the ledger: one rebuilds, the others take the stale copy (F2).
async fn load(activity: &ActivityId, version: i64) -> Result<Option<Rc<CachedActivity>>, ApiError> {
    for _ in 0..POLL.1 {
        // A copy of another version would show what an operator has just changed: wait for the new one.
        let cached_copy = cached(activity).await.filter(|cached_copy| cached_copy.version == version);
        if let Some(cached_copy) = cached_copy.as_ref().filter(|cached_copy| cached_copy.fresh_until > clock::now()) {
            return Ok(Some(cached_copy.clone()));
        }
        let owner = ulid::Ulid::from_parts(clock::now().0.unsigned_abs(), random()).to_string();
        let lease_key = format!("{{{activity}}}:rebuild");
        if sweep::hold_lease(&SpinRedis, &lease_key, &owner, REFRESH_LEASE_MS).await? {
            return match (refresh(activity).await, cached_copy) {
                // While the ledger is away the lease is kept: somebody tries again when it ends.
                (Err(ApiError::Store(StoreError::LedgerUnavailable(_))), Some(cached_copy)) => Ok(Some(cached_copy)),
                (refreshed, _) => {
                    sweep::hold_lease(&SpinRedis, &lease_key, &owner, 0).await.map_err(ApiError::from).and(refreshed)
                }
            };
        }
        if cached_copy.is_some() {
            return Ok(cached_copy);
        }
        spin_sdk::time::sleep(POLL.0).await;
    }
    refresh(activity).await
}

async fn refresh(activity: &ActivityId) -> Result<Option<Rc<CachedActivity>>, ApiError> {
    let Some(found) = activities::load(&SpinLedger::open().await, activity).await? else { return Ok(None) };
    // Expiries carry jitter, so that copies made together are not rebuilt together (F4).
    let jitter = i64::try_from(random() % 10_000).unwrap_or_default();
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

/// Random bits; the clock's where the machine has none to give.
#[must_use]
pub fn random() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_le_bytes(bytes),
        Err(_) => u128::from(clock::now().0.unsigned_abs()),
    }
}

/// A gate, and when it was read by the instance's clock.
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

/// Redis's clock at our `now`, carried on from when the gate was read.
#[must_use]
pub fn server_time(gate: &CachedGate, now: Millis) -> Millis {
    gate.snapshot.now.plus(now.0 - gate.read_at.0)
}
