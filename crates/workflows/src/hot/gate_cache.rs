//! Per-instance cache that refuses reservations without a Redis call (A4, C6).
//!
//! It holds the gate, sold-out SKUs and bans for at most a second. The replies to reservations fill it, so it makes no
//! Redis calls of its own. With the refusal of a sold-out SKU comes the bitmap of winners: the request of a ticket that
//! may have won is sent to Redis.
//!
//! A ticket is not refused as sold out once this instance has passed on the reply with its order, or has read the
//! bitmap after the order was made (B3). An order that was made later, through another instance and of units that were
//! released, is not known here for at most a second.

use std::collections::HashMap;

use domain::{
    activity::Phase,
    ids::{ActivityId, SkuId, UserId},
    problem::Code,
    time::Millis,
};
use ulid::Ulid;

use crate::{
    cache::ttl::{self, MAX_AGE_MS, STALE_WHILE_REFRESH_MS},
    hot::{
        reserve::{Gate, ReserveOutcome, ReserveReply, ReserveRequest},
        winners::Winners,
    },
};

/// Maximum number of activities in the cache, apart from those that requests in flight refresh.
const MAX_ACTIVITIES: usize = 1_024;

/// Maximum size of the bitmaps of all activities, in bytes.
const MAX_BITMAP_BYTES: usize = 64 << 20;

/// Maximum number of bans of one activity.
const MAX_BANS: usize = 64;

/// What to do with a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Refuse it. The number is the wait in milliseconds for `Retry-After`; 0 is none.
    Refuse(Code, i64),
    /// Send it to Redis.
    Send,
    /// Send it to Redis, and request the gate and the winners in the reply. Call [`GateCache::end_refresh`] when the
    /// request ends, however it ends.
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
    /// The winners of all SKUs, at least as new as each time in `sold_out`.
    winners: Winners,
    /// Pairs of user and client address that Redis refused because of a ban, and when. For the next second, requests of
    /// the same pair cost no Redis call (B6).
    banned: HashMap<(UserId, String), Millis>,
    refresh: Option<Refresh<W>>,
}

impl<W> Default for Entry<W> {
    fn default() -> Self {
        let (sold_out, banned) = (HashMap::new(), HashMap::new());
        Self { gate: None, sold_out, winners: Winners::default(), banned, refresh: None }
    }
}

/// Redis's last refusal for a SKU because it was sold out.
struct SoldOut {
    /// When it was refused, by the instance's clock; `None` if the reply had no winners. Then one request reads them, so
    /// that not every request in flight receives the bitmap when a SKU sells out.
    at: Option<Millis>,
    /// The quantity that was refused. A smaller one may still be available, and is sent to Redis.
    quantity: i64,
}

/// A request that refreshes the gate.
struct Refresh<W> {
    /// Wake the requests that wait for it.
    waiters: Vec<W>,
    /// Tickets whose orders' replies came in the meantime: the bitmap that it reads may be older than they are.
    won: Vec<Ulid>,
}

impl<W> Entry<W> {
    /// Lets this request refresh the gate, or wait for one that already does.
    fn refresh_or_wait(&mut self) -> Decision {
        if self.refresh.is_some() {
            return Decision::Wait;
        }
        self.refresh = Some(Refresh { waiters: Vec::new(), won: Vec::new() });
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
            Some(sold) if request.quantity >= sold.quantity => match sold.at {
                None => entry.refresh_or_wait(),
                Some(_) if entry.winners.may_contain(request.order_no.ulid()) => Decision::Send,
                Some(at) if is_fresh(at) => Decision::Refuse(Code::SoldOut, 0),
                Some(_) => entry.refresh_or_wait(),
            },
            _ => Decision::Send,
        }
    }

    /// Removes the activity whose gate was read first. One that a request refreshes stays: requests may wait for it, and
    /// it has winners that the bitmap on its way lacks. Returns whether there was another one.
    fn evict_oldest(&mut self) -> bool {
        let read_at = |entry: &Entry<W>| entry.gate.as_ref().map(|(_, at, _)| *at);
        let idle = self.0.iter().filter(|(_, entry)| entry.refresh.is_none());
        let oldest = idle.min_by_key(|(_, entry)| read_at(entry)).map(|(activity, _)| activity.clone());
        oldest.is_some_and(|activity| self.0.remove(&activity).is_some())
    }

    /// Drops `waiter` when the refresh of an activity's gate ends; at once if there is none.
    pub fn add_waiter(&mut self, activity: &ActivityId, waiter: W) {
        if let Some(refresh) = self.0.get_mut(activity).and_then(|entry| entry.refresh.as_mut()) {
            refresh.waiters.push(waiter);
        }
    }

    /// Ends the refresh of an activity's gate, and wakes the requests that wait for it.
    pub fn end_refresh(&mut self, activity: &ActivityId) {
        if let Some(entry) = self.0.get_mut(activity) {
            entry.refresh = None;
        }
    }

    /// Learns the gate, the SKU's state and the ban from Redis's reply to a reservation. Takes the winners out of it.
    pub fn update(&mut self, request: &ReserveRequest, reply: &mut ReserveReply, now: Millis) {
        let Some(entry) = self.0.get_mut(request.order_no.activity()) else { return };
        if let Some(gate) = &reply.gate {
            entry.gate = Some((gate.clone(), now, reply.now.0 - now.0));
        }
        let mut has_grown = false;
        match &mut reply.outcome {
            ReserveOutcome::SoldOut(winners) => {
                if let Some(winners) = winners.take() {
                    has_grown = winners.bytes() > entry.winners.bytes();
                    entry.winners = winners;
                    for ticket in entry.refresh.iter().flat_map(|refresh| &refresh.won) {
                        entry.winners.insert(*ticket);
                    }
                    entry.sold_out.insert(request.sku.clone(), SoldOut { at: Some(now), quantity: request.quantity });
                } else if entry.sold_out.get(&request.sku).is_none_or(|sold| request.quantity < sold.quantity) {
                    entry.sold_out.insert(request.sku.clone(), SoldOut { at: None, quantity: request.quantity });
                }
            }
            ReserveOutcome::Refused(Code::Banned, _) if entry.banned.len() < MAX_BANS => {
                entry.banned.insert((request.user.clone(), request.ip.clone()), now);
            }
            // A new order means that units are available again. Another answer to a refreshing request leaves that open:
            // without the entry, the next requests do not wait for one another.
            ReserveOutcome::Queued(_) | ReserveOutcome::Refused(..) => {
                let has_order = matches!(reply.outcome, ReserveOutcome::Queued(_));
                if has_order {
                    let ticket = request.order_no.ulid();
                    entry.winners.insert(ticket);
                    entry.refresh.iter_mut().for_each(|refresh| refresh.won.push(ticket));
                }
                if has_order && !reply.is_replay || reply.gate.is_some() {
                    entry.sold_out.remove(&request.sku);
                }
            }
        }
        // This activity stays, because its request still refreshes it.
        let bytes = |cache: &Self| cache.0.values().map(|entry| entry.winners.bytes()).sum::<usize>();
        while has_grown && bytes(self) > MAX_BITMAP_BYTES && self.evict_oldest() {}
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
