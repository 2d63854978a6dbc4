//! What an instance remembers of a gate for less than a second (A4, C6): enough to refuse without Redis.
//!
//! It is fed by the answers of the reservations themselves, so it never costs a call of its own. A winner who asks again
//! is told from a loser by the winners' fingerprints: a replay goes to Redis, whatever is sold out.

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

/// Sales remembered at most, and bans of a sale.
const MAX_ENTRIES: usize = 64;

/// What to do with a wish.
pub enum Decision {
    /// Refuse it, with milliseconds to wait where that helps.
    Refuse(Code, i64),
    /// Ask Redis.
    Ask,
    /// Ask Redis, and have it bring the gate along.
    Refresh(RefreshGuard),
    /// Somebody is looking: wait for what they see.
    Wait(Notified),
}

#[derive(Default)]
struct GateCache {
    /// The gate, when it was read, and Redis's clock less ours.
    gate: Option<(Gate, Millis, i64)>,
    sold_out: HashMap<SkuId, SoldOut>,
    /// Who was refused for a ban, and when: hammering on costs no call (B6).
    banned: HashMap<(UserId, String), Millis>,
    /// Those who wait for what somebody sees who is looking.
    refreshing: Option<Vec<Notifier>>,
}

impl GateCache {
    /// Looks, or waits for who is looking.
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

struct SoldOut {
    at: Millis,
    quantity: i64,
    winners: HashSet<[u8; 4]>,
}

thread_local! {
    static CACHE: RefCell<HashMap<ActivityId, GateCache>> = RefCell::default();
}

/// Marks that a request is looking; dropped with it, however it ends, it wakes those who wait.
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

/// What memory says of a wish at `now`.
pub fn decide(request: &ReserveRequest, now: Millis) -> Decision {
    let activity = request.order_no.activity();
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= MAX_ENTRIES && !cache.contains_key(activity) {
            cache.clear();
        }
        let entry = cache.entry(activity.clone()).or_default();
        // What is from the future is from a clock that has jumped: its age is not known. While somebody looks, the others
        // read on for a moment.
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
            _ => Decision::Ask,
        }
    })
}

/// Why the gate is closed to a start key at Redis's `now`.
fn gate_refusal(gate: &Gate, now: Millis, start_key: &str) -> Option<(Code, i64)> {
    match gate.phase(now) {
        Phase::Ended => Some((Code::Ended, 0)),
        Phase::Paused => Some((Code::Paused, 0)),
        Phase::Scheduled => Some((Code::NotOpen, gate.starts_at.0 - now.0)),
        Phase::Open if gate.shed => Some((Code::Overloaded, 5_000)),
        Phase::Open => (start_key != gate.start_key).then_some((Code::StartKeyInvalid, 0)),
    }
}

/// Remembers what an answer of Redis showed.
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
            // A new order means that there is stock again.
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
