//! Per-instance cache that refuses reservations without a Redis call (A4, C6).
//!
//! It holds the gate, sold-out SKUs and bans for at most a second. The replies to reservations fill it, so it makes no
//! Redis calls of its own. A sold-out SKU is refused to every ticket, also to one that has made an order: the refusal
//! names the order to read (B3).

use std::collections::HashMap;

use domain::{
    activity::Phase,
    http::problem::Code,
    ids::{ActivityId, SkuId, UserId},
    time::Millis,
};
use stores::ttl::{self, MAX_AGE_MS, STALE_WHILE_REFRESH_MS};

use crate::reserve::{Gate, ReserveOutcome, ReserveReply, ReserveRequest};

/// Maximum number of activities in the cache, apart from those that requests in flight refresh.
const MAX_ACTIVITIES: usize = 1_024;

/// Maximum number of bans of one activity.
const MAX_BANS: usize = 64;

/// What to do with a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Refuse it. The number is the wait in milliseconds for `Retry-After`; 0 is none.
    Refuse(Code, i64),
    /// Send it to Redis.
    Send,
    /// Send it to Redis, and request the gate in the reply. Call [`GateCache::end_refresh`] when the request ends,
    /// however it ends.
    Refresh,
    /// Another request refreshes the gate: call [`GateCache::add_waiter`], wait, and decide again.
    Wait,
}

/// What an instance knows of the activities. A waiter `W` wakes a waiting request when it is dropped.
pub struct GateCache<W>(HashMap<ActivityId, Entry<W>>);

impl<W> Default for GateCache<W> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// What an instance knows of one activity.
struct Entry<W> {
    /// The gate, when it was read by the instance's clock, and Redis's clock minus the instance's, in milliseconds.
    gate: Option<(Gate, Millis, i64)>,
    sold_out: HashMap<SkuId, SoldOut>,
    /// Pairs of user and client address that Redis refused because of a ban, and when. For the next second, requests of
    /// the same pair cost no Redis call (B6).
    banned: HashMap<(UserId, String), Millis>,
    /// While a request refreshes the gate: wake the requests that wait for it.
    refresh: Option<Vec<W>>,
}

impl<W> Default for Entry<W> {
    fn default() -> Self {
        Self { gate: None, sold_out: HashMap::new(), banned: HashMap::new(), refresh: None }
    }
}

/// Redis's last refusal for a SKU because it was sold out.
struct SoldOut {
    /// When it was refused, by the instance's clock.
    at: Millis,
    /// The quantity that was refused. A smaller one may still be available, and is sent to Redis.
    quantity: i64,
}

impl<W> Entry<W> {
    /// Lets this request refresh the gate, or wait for one that already does.
    fn refresh_or_wait(&mut self) -> Decision {
        if self.refresh.is_some() {
            return Decision::Wait;
        }
        self.refresh = Some(Vec::new());
        Decision::Refresh
    }
}

impl<W> GateCache<W> {
    /// Decides what to do with a reservation at `now`, by the instance's clock.
    pub fn decide(&mut self, request: &ReserveRequest, now: Millis) -> Decision {
        let activity = request.order_no.activity();
        if self.0.len() >= MAX_ACTIVITIES && !self.0.contains_key(activity) {
            self.evict_oldest();
        }
        let entry = self.0.entry(activity.clone()).or_default();
        // During a refresh, the other requests use old copies for a moment.
        let max_age_ms = if entry.refresh.is_some() { MAX_AGE_MS + STALE_WHILE_REFRESH_MS } else { MAX_AGE_MS };
        let is_fresh = |at: Millis| ttl::is_fresh(at, now, max_age_ms);
        let Some((gate, _, offset)) = entry.gate.as_ref().filter(|(_, at, _)| is_fresh(*at)) else {
            return entry.refresh_or_wait();
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
            Some(sold) if request.quantity < sold.quantity => Decision::Send,
            Some(sold) if is_fresh(sold.at) => Decision::Refuse(Code::SoldOut, 0),
            Some(_) => entry.refresh_or_wait(),
            None => Decision::Send,
        }
    }

    /// Removes the activity whose gate was read first. One that a request refreshes stays, because others wait for it.
    fn evict_oldest(&mut self) {
        let read_at = |entry: &Entry<W>| entry.gate.as_ref().map(|(_, at, _)| *at);
        let idle = self.0.iter().filter(|(_, entry)| entry.refresh.is_none());
        let oldest = idle.min_by_key(|(_, entry)| read_at(entry)).map(|(activity, _)| activity.clone());
        if let Some(activity) = oldest {
            self.0.remove(&activity);
        }
    }

    /// Drops `waiter` when the refresh of an activity's gate ends; at once if there is none.
    pub fn add_waiter(&mut self, activity: &ActivityId, waiter: W) {
        if let Some(waiters) = self.0.get_mut(activity).and_then(|entry| entry.refresh.as_mut()) {
            waiters.push(waiter);
        }
    }

    /// Ends the refresh of an activity's gate, and wakes the requests that wait for it.
    pub fn end_refresh(&mut self, activity: &ActivityId) {
        if let Some(entry) = self.0.get_mut(activity) {
            entry.refresh = None;
        }
    }

    /// The moment `at` of the instance's clock by Redis's clock, as far as replies have told it: before the first one the
    /// clocks count as equal.
    pub fn redis_time(&self, activity: &ActivityId, at: Millis) -> Millis {
        let gate = self.0.get(activity).and_then(|entry| entry.gate.as_ref());
        at.plus(gate.map_or(0, |(_, _, offset)| *offset))
    }

    /// Learns the gate, the SKU's state and the ban from Redis's reply to a reservation.
    pub fn update(&mut self, request: &ReserveRequest, reply: &ReserveReply, now: Millis) {
        let Some(entry) = self.0.get_mut(request.order_no.activity()) else { return };
        if let Some(gate) = &reply.gate {
            entry.gate = Some((gate.clone(), now, reply.now.0 - now.0));
        }
        let sold_out = entry.sold_out.get(&request.sku);
        match reply.outcome {
            ReserveOutcome::Refused(Code::SoldOut, _) => {
                // A larger quantity that was in flight does not replace the refusal of a smaller one.
                if reply.gate.is_some() || sold_out.is_none_or(|sold| request.quantity <= sold.quantity) {
                    entry.sold_out.insert(request.sku.clone(), SoldOut { at: now, quantity: request.quantity });
                }
            }
            ReserveOutcome::Refused(Code::Banned, _) if entry.banned.len() < MAX_BANS => {
                entry.banned.insert((request.user.clone(), request.ip.clone()), now);
            }
            // A new order means that units are available again. Another answer to a refreshing request leaves that open:
            // without the entry, the next requests do not wait for one another.
            ReserveOutcome::Queued(_) | ReserveOutcome::Refused(..) => {
                let has_new_order = matches!(reply.outcome, ReserveOutcome::Queued(_)) && !reply.is_repeat;
                if has_new_order || reply.gate.is_some() {
                    entry.sold_out.remove(&request.sku);
                }
            }
        }
    }
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

#[cfg(test)]
mod tests;
