//! Per-instance cache that refuses reservations without a Redis call (A4, C6).
//!
//! It holds the gate, sold-out SKUs and bans for at most a second. The replies to reservations fill it, so it makes no
//! Redis calls of its own. With the refusal of a sold-out SKU comes the bitmap of winners: the request of a ticket that
//! may have won is sent to Redis.

use std::{cell::RefCell, collections::HashMap};

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
use workflows::hot::{
    reserve::{Gate, ReserveOutcome, ReserveReply, ReserveRequest},
    winners::Winners,
};

/// Maximum number of activities in the cache, and of bans of one activity.
const MAX_ENTRIES: usize = 64;

/// What to do with a reservation.
pub enum Decision {
    /// Refuse it. The number is the wait in milliseconds for `Retry-After`; 0 is none.
    Refuse(Code, i64),
    /// Send it to Redis.
    Send,
    /// Send it to Redis, and request the gate and the winners in the reply. Keep the guard until [`update`] has run.
    Refresh(RefreshGuard),
    /// Another request refreshes the gate: wait for it, and decide again.
    Wait(Notified),
}

#[derive(Default)]
struct GateCache {
    /// The gate, when it was read by the instance's clock, and Redis's clock minus the instance's, in milliseconds.
    gate: Option<(Gate, Millis, i64)>,
    sold_out: HashMap<SkuId, SoldOut>,
    /// The winners of all SKUs, at least as new as each time in `sold_out`.
    winners: Winners,
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
    /// When it was refused, by the instance's clock; `None` if the reply had no winners. Then one request reads them, so
    /// that not every request in flight receives the bitmap when a SKU sells out.
    at: Option<Millis>,
    /// The quantity that was refused. A smaller one may still be available, and is sent to Redis.
    quantity: i64,
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
            Some(sold) if request.quantity >= sold.quantity => match sold.at {
                None => entry.refresh(activity),
                Some(_) if entry.winners.may_contain(request.order_no.ulid()) => Decision::Send,
                Some(at) if is_fresh(at) => Decision::Refuse(Code::SoldOut, 0),
                Some(_) => entry.refresh(activity),
            },
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

/// Updates the cache with the gate, the SKU's state and the ban in Redis's reply to a reservation. Takes the winners out
/// of the reply.
pub fn update(request: &ReserveRequest, reply: &mut ReserveReply, now: Millis) {
    CACHE.with_borrow_mut(|cache| {
        let Some(entry) = cache.get_mut(request.order_no.activity()) else { return };
        if let Some(gate) = &reply.gate {
            entry.gate = Some((gate.clone(), now, reply.now.0 - now.0));
        }
        match &mut reply.outcome {
            ReserveOutcome::SoldOut(winners) => {
                if let Some(winners) = winners.take() {
                    entry.winners = winners;
                    entry.sold_out.insert(request.sku.clone(), SoldOut { at: Some(now), quantity: request.quantity });
                } else if entry.sold_out.get(&request.sku).is_none_or(|sold| request.quantity < sold.quantity) {
                    entry.sold_out.insert(request.sku.clone(), SoldOut { at: None, quantity: request.quantity });
                }
            }
            ReserveOutcome::Refused(Code::Banned, _) if entry.banned.len() < MAX_ENTRIES => {
                entry.banned.insert((request.user.clone(), request.ip.clone()), now);
            }
            // A new order means that units are available again. Another answer to a refreshing request leaves that open:
            // without the entry, the next requests do not wait for one another.
            ReserveOutcome::Queued(_) | ReserveOutcome::Refused(..) => {
                let is_new_order = matches!(reply.outcome, ReserveOutcome::Queued(_)) && !reply.is_replay;
                if is_new_order || reply.gate.is_some() {
                    entry.sold_out.remove(&request.sku);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use domain::{activity::ActivityState, ids::OrderNo};
    use ulid::Ulid;

    use super::*;

    const KEY: &str = "key";

    fn request(ticket: u128, sku: &str, quantity: i64) -> ReserveRequest {
        ReserveRequest {
            order_no: OrderNo::new(ActivityId::parse("sale").expect("id"), Ulid::from_parts(1, ticket)),
            user: UserId::parse("ada").expect("id"),
            sku: SkuId::parse(sku).expect("SKU"),
            quantity,
            start_key: KEY.to_owned(),
            ip: String::new(),
            abuse_by_ip: Vec::new(),
        }
    }

    /// Redis's reply to a request, with the gate if the request refreshes it.
    fn answer(request: &ReserveRequest, outcome: ReserveOutcome, refreshes: bool, now: i64) {
        let gate = Gate {
            state: ActivityState::Published,
            starts_at: Millis(0),
            ends_at: Millis(1_000_000),
            shed: false,
            start_key: KEY.to_owned(),
        };
        let gate = refreshes.then_some(gate);
        let mut reply = ReserveReply { now: Millis(now), rate_limits: Vec::new(), gate, is_replay: false, outcome };
        update(request, &mut reply, Millis(now));
    }

    /// Sells SKU `a` out: one request refreshes, and ticket 1 has won.
    fn sell_out(now: i64) {
        let loser = request(2, "a", 1);
        let Decision::Refresh(_guard) = decide(&loser, Millis(now)) else { panic!("no refresh") };
        answer(&loser, ReserveOutcome::SoldOut(Some(Winners::new(vec![0b0100_0000]))), true, now);
    }

    #[test]
    fn losers_are_refused_from_memory_and_winners_are_sent() {
        sell_out(1_000);
        assert!(matches!(decide(&request(2, "a", 1), Millis(1_500)), Decision::Refuse(Code::SoldOut, 0)));
        assert!(matches!(decide(&request(1, "a", 1), Millis(1_500)), Decision::Send));
        assert!(matches!(decide(&request(2, "b", 1), Millis(1_500)), Decision::Send));
        assert!(matches!(decide(&request(2, "a", 1), Millis(2_500)), Decision::Refresh(_)));
    }

    #[test]
    fn a_refusal_that_redis_repeats_costs_the_others_no_call() {
        sell_out(1_000);
        // Ticket 9 shares its bit with ticket 1.
        assert!(matches!(decide(&request(9, "a", 1), Millis(1_500)), Decision::Send));
        answer(&request(9, "a", 1), ReserveOutcome::SoldOut(None), false, 1_500);
        assert!(matches!(decide(&request(2, "a", 1), Millis(1_600)), Decision::Refuse(Code::SoldOut, 0)));
    }

    #[test]
    fn one_request_reads_the_winners_when_others_learned_that_a_sku_is_sold_out() {
        sell_out(1_000);
        for ticket in 10..14 {
            answer(&request(ticket, "b", 1), ReserveOutcome::SoldOut(None), false, 1_100);
        }
        let Decision::Refresh(guard) = decide(&request(2, "b", 1), Millis(1_200)) else { panic!("no refresh") };
        answer(&request(2, "b", 1), ReserveOutcome::SoldOut(Some(Winners::new(vec![0b0001_0000]))), true, 1_200);
        drop(guard);
        assert!(matches!(decide(&request(2, "b", 1), Millis(1_300)), Decision::Refuse(Code::SoldOut, 0)));
        assert!(matches!(decide(&request(3, "b", 1), Millis(1_300)), Decision::Send));
    }

    #[test]
    fn a_smaller_quantity_is_sent_and_its_refusal_reads_the_winners_again() {
        let two = request(2, "a", 2);
        let Decision::Refresh(guard) = decide(&two, Millis(1_000)) else { panic!("no refresh") };
        answer(&two, ReserveOutcome::SoldOut(Some(Winners::new(vec![0]))), true, 1_000);
        drop(guard);
        assert!(matches!(decide(&request(3, "a", 1), Millis(1_100)), Decision::Send));
        answer(&request(3, "a", 1), ReserveOutcome::SoldOut(None), false, 1_100);
        assert!(matches!(decide(&request(4, "a", 1), Millis(1_200)), Decision::Refresh(_)));
    }
}
