//! Sales as readers see them: instance memory over key-value over the ledger (F1–F4).

use std::{cell::RefCell, rc::Rc, time::Duration};

use domain::{
    activity::{Spec, State},
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
    http::{Failure, not_found},
    key_value,
    ledger::SpinLedger,
    published,
    redis::SpinRedis,
    ttl_cache::{self, MAX_AGE_MS, TtlCache},
};

/// How long a copy in key-value is taken for fresh, in milliseconds, before jitter.
const FRESH_MS: i64 = 60_000;

/// How long one rebuilder has, in milliseconds.
const REBUILD_MS: i64 = 3_000;

/// What those do who find nothing: look again every 50 ms, up to 500 ms.
const WAIT: (Duration, usize) = (Duration::from_millis(50), 10);

thread_local! {
    static GLANCES: TtlCache<ActivityId, Option<Rc<Read>>> = RefCell::default();
    static SALES: TtlCache<ActivityId, Option<Rc<CachedActivity>>> = RefCell::default();
}

/// A sale's description, as key-value keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CachedActivity {
    /// Its id.
    pub id: ActivityId,
    /// Its description.
    pub spec: Spec,
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
    pub fn state(&self) -> State {
        State::parse(&self.state).unwrap_or(State::Draft)
    }
}

/// The gate and what is left, less than a second old. That there is none is not remembered, so a sale is there the moment
/// it is published.
///
/// # Errors
/// [`Failure`] of Redis; without a gate `not_found`, `ended`, or `not_ready`.
pub async fn glance(activity: &ActivityId) -> Result<Rc<Read>, Failure> {
    let found = ttl_cache::get(&GLANCES, activity.clone(), MAX_AGE_MS, async || {
        let glance = read_gate::read_gate(&SpinRedis, activity).await?;
        Ok::<_, Failure>(glance.map(|glance| Rc::new(Read { glance, at: clock::now() })))
    })
    .await?;
    match found {
        Some(read) => Ok(read),
        None => {
            GLANCES.with_borrow_mut(|copies| copies.remove(activity));
            Err(published::without_gate(activity).await)
        }
    }
}

/// A published sale's description.
///
/// # Errors
/// [`Failure`] of a store, and those of [`glance`].
pub async fn sale(activity: &ActivityId) -> Result<Rc<CachedActivity>, Failure> {
    let version = glance(activity).await?.version;
    let found = ttl_cache::get(&SALES, activity.clone(), MAX_AGE_MS, async || load(activity, version).await).await?;
    found.ok_or_else(|| not_found("There is no such sale."))
}

/// A published sale's description as it was last copied, whatever has become of it since.
pub async fn copy(activity: &ActivityId) -> Option<Rc<CachedActivity>> {
    let copy =
        key_value::get(&key(activity)).await.and_then(|bytes| serde_json::from_slice::<CachedActivity>(&bytes).ok());
    copy.filter(|sale| sale.state() != State::Draft).map(Rc::new)
}

fn key(activity: &ActivityId) -> String {
    format!("sale:{activity}")
}

/// From key-value where the copy is fresh, else from the ledger: one rebuilds, the others take the stale copy (F2).
async fn load(activity: &ActivityId, version: i64) -> Result<Option<Rc<CachedActivity>>, Failure> {
    for _ in 0..WAIT.1 {
        // A copy of another version would show what an operator has just changed: wait for the new one.
        let copy = copy(activity).await.filter(|copy| copy.version == version);
        if let Some(copy) = copy.as_ref().filter(|copy| copy.fresh_until > clock::now()) {
            return Ok(Some(copy.clone()));
        }
        let owner = ulid::Ulid::from_parts(clock::now().0.unsigned_abs(), random()).to_string();
        let lock = format!("{{{activity}}}:rebuild");
        if sweep::lease_of(&SpinRedis, &lock, &owner, REBUILD_MS).await? {
            return match (rebuild(activity).await, copy) {
                // While the ledger is away the lease is kept: somebody tries again when it ends.
                (Err(Failure::Store(StoreError::LedgerUnavailable(_))), Some(copy)) => Ok(Some(copy)),
                (built, _) => sweep::lease_of(&SpinRedis, &lock, &owner, 0).await.map_err(Failure::from).and(built),
            };
        }
        if copy.is_some() {
            return Ok(copy);
        }
        spin_sdk::time::sleep(WAIT.0).await;
    }
    rebuild(activity).await
}

async fn rebuild(activity: &ActivityId) -> Result<Option<Rc<CachedActivity>>, Failure> {
    let Some(found) = activities::load(&SpinLedger::open().await, activity).await? else { return Ok(None) };
    // Expiries carry jitter, so that copies made together are not rebuilt together (F4).
    let jitter = i64::try_from(random() % 10_000).unwrap_or_default();
    let sale = CachedActivity {
        id: found.id,
        spec: found.spec,
        version: found.version,
        state: found.state.as_str().to_owned(),
        fresh_until: clock::now().plus(FRESH_MS + jitter),
    };
    if let Ok(bytes) = serde_json::to_vec(&sale) {
        key_value::set(&key(activity), &bytes).await;
    }
    Ok(Some(Rc::new(sale)))
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
pub struct Read {
    glance: GateSnapshot,
    at: Millis,
}

impl std::ops::Deref for Read {
    type Target = GateSnapshot;
    fn deref(&self) -> &GateSnapshot {
        &self.glance
    }
}

/// Redis's clock at our `now`, carried on from when the gate was read.
#[must_use]
pub fn server_time(read: &Read, now: Millis) -> Millis {
    read.glance.now.plus(now.0 - read.at.0)
}
