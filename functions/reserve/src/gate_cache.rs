//! Per-instance cache that refuses reservations without a Redis call (A4, C6).
//!
//! It holds the gate, sold-out SKUs and bans for at most a second. The replies to reservations fill it, so it makes no
//! Redis calls of its own. A winner that repeats its request is recognised by its ULID's fingerprint, and the request
//! is sent to Redis although the SKU is sold out.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use domain::{
    activity::Phase,
    ids::{ActivityId, SkuId, UserId},
    problem::Code,
    time::Millis,
};
use platform::{
    notify::{self, Notified, Notifier},
    ttl_cache::{MAX_AGE_MS, STALE_WHILE_REFRESH_MS},
};
use workflows::hot::reserve::{Gate, ReserveOutcome, ReserveReply, ReserveRequest, fingerprint};

/// Maximum number of activities in the cache, and of bans of one activity.
const MAX_ENTRIES: usize = 64;

/// What to do with a reservation.
pub enum Decision {
    /// Refuse it. The number is the wait in milliseconds for `Retry-After`; 0 is none.
    Refuse(Code, i64),
    /// Send it to Redis.
    Send,
    /// Send it to Redis, and request the gate in the reply. Keep the guard until [`update`] has run.
    Refresh(RefreshGuard),
    /// Another request refreshes the gate: wait for it, and decide again.
    Wait(Notified),
}

#[derive(Default)]
struct GateCache {
    /// The gate, when it was read by the instance's clock, and Redis's clock minus the instance's, in milliseconds.
    gate: Option<(Gate, Millis, i64)>,
    sold_out: HashMap<SkuId, SoldOut>,
    /// Pairs of user and client address that Redis refused because of a ban, and when. For the next second, requests of
    /// the same pair cost no Redis call (B6).
    banned: HashMap<(UserId, String), Millis>,
    /// `Some` while a request refreshes the gate; the notifiers wake the requests that wait for it.
    refreshing: Option<Vec<Notifier>>,
}

impl GateCache {
    /// Lets this request refresh the gate, or wait for one that already does.
    fn refresh(&mut self, activity: &ActivityId) -> Decision {
        if let Some(waiters) = &mut self.refreshing {
            let (notifier, refreshed) = notify::channel();
            waiters.push(notifier);
            return Decision::Wait(refreshed);
        }
        self.refreshing = Some(Vec::new());
        Decision::Refresh(RefreshGuard(activity.clone()))
    }
}

/// Redis's last refusal for a SKU because it was sold out.
struct SoldOut {
    /// When it was refused, by the instance's clock.
    at: Millis,
    /// The quantity that was refused. A smaller one may still be available, and is sent to Redis.
    quantity: i64,
    /// The fingerprints of all orders that Redis had accepted by then.
    winners: HashSet<[u8; 4]>,
}

thread_local! {
    static CACHE: RefCell<HashMap<ActivityId, GateCache>> = RefCell::default();
}

/// Marks that a request refreshes the gate. When it is dropped, however the request ends, the waiting requests wake.
pub struct RefreshGuard(ActivityId);

impl Drop for RefreshGuard {
    fn drop(&mut self) {
        CACHE.with_borrow_mut(|cache| {
            if let Some(entry) = cache.get_mut(&self.0) {
                entry.refreshing = None;
            }
        });
    }
}

/// Decides from the cache what to do with a reservation at `now`, by the instance's clock.
pub fn decide(request: &ReserveRequest, now: Millis) -> Decision {
    let activity = request.order_no.activity();
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= MAX_ENTRIES && !cache.contains_key(activity) {
            cache.clear();
        }
        let entry = cache.entry(activity.clone()).or_default();
        // An entry from the future means that the clock was set back: its age is unknown. During a refresh, the other
        // requests use old entries for a moment.
        let max_age_ms = if entry.refreshing.is_some() { MAX_AGE_MS + STALE_WHILE_REFRESH_MS } else { MAX_AGE_MS };
        let is_fresh = |at: Millis| (0..=max_age_ms).contains(&(now.0 - at.0));
        let Some((gate, _, offset)) = entry.gate.as_ref().filter(|(_, at, _)| is_fresh(*at)) else {
            return entry.refresh(activity);
        };
        if let Some((code, wait_ms)) = gate_refusal(gate, now.plus(*offset), &request.start_key) {
            return Decision::Refuse(code, wait_ms);
        }
        if !entry.banned.is_empty() {
            entry.banned.retain(|_, at| is_fresh(*at));
            if entry.banned.contains_key(&(request.user.clone(), request.ip.clone())) {
                return Decision::Refuse(Code::Banned, 0);
            }
        }
        match entry.sold_out.get(&request.sku) {
            Some(sold)
                if request.quantity >= sold.quantity
                    && !sold.winners.contains(&fingerprint(request.order_no.ulid())) =>
            {
                if is_fresh(sold.at) {
                    Decision::Refuse(Code::SoldOut, 0)
                } else {
                    entry.refresh(activity)
                }
            }
            _ => Decision::Send,
        }
    })
}

/// Returns why the gate refuses a start key at `now`, by Redis's clock, and the wait in milliseconds.
fn gate_refusal(gate: &Gate, now: Millis, start_key: &str) -> Option<(Code, i64)> {
    match gate.phase(now) {
        Phase::Ended => Some((Code::Ended, 0)),
        Phase::Paused => Some((Code::Paused, 0)),
        Phase::Scheduled => Some((Code::NotOpen, gate.starts_at.0 - now.0)),
        Phase::Open if gate.shed => Some((Code::Overloaded, 5_000)),
        Phase::Open => (start_key != gate.start_key).then_some((Code::StartKeyInvalid, 0)),
    }
}

/// Updates the cache with the gate, the SKU's state and the ban in Redis's reply to a reservation.
pub fn update(request: &ReserveRequest, reply: &ReserveReply, now: Millis) {
    CACHE.with_borrow_mut(|cache| {
        let Some(entry) = cache.get_mut(request.order_no.activity()) else { return };
        if let Some(gate) = &reply.gate {
            entry.gate = Some((gate.clone(), now, reply.now.0 - now.0));
        }
        match &reply.outcome {
            ReserveOutcome::SoldOut(winners) => {
                let winners = winners.iter().copied().collect();
                entry.sold_out.insert(request.sku.clone(), SoldOut { at: now, quantity: request.quantity, winners });
            }
            // A new order means that units are available again.
            ReserveOutcome::Queued(_) => {
                entry.sold_out.remove(&request.sku);
            }
            ReserveOutcome::Refused(Code::Banned, _) if entry.banned.len() < MAX_ENTRIES => {
                entry.banned.insert((request.user.clone(), request.ip.clone()), now);
            }
            ReserveOutcome::Refused(..) => {}
        }
    });
}
