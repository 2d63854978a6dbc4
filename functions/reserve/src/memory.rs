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
    alarm::{self, Alarm, Sleep},
    memory::{MAX_AGE_MS, READ_ON_MS},
};
use workflows::hot::reserve::{Decision, GateFacts, Outcome, Reservation, fingerprint};

/// Sales remembered at most, and bans of a sale.
const MOST: usize = 64;

/// What to do with a wish.
pub enum Advice {
    /// Refuse it, with milliseconds to wait where that helps.
    Refuse(Code, i64),
    /// Ask Redis.
    Ask,
    /// Ask Redis, and have it bring the gate along.
    Look(Looking),
    /// Somebody is looking: wait for what they see.
    Wait(Sleep),
}

#[derive(Default)]
struct Memory {
    /// The gate, when it was read, and Redis's clock less ours.
    gate: Option<(GateFacts, Millis, i64)>,
    sold_out: HashMap<SkuId, SoldOut>,
    /// Who was refused for a ban, and when: hammering on costs no call (B6).
    banned: HashMap<(UserId, String), Millis>,
    /// Those who wait for what somebody sees who is looking.
    looking: Option<Vec<Alarm>>,
}

impl Memory {
    /// Looks, or waits for who is looking.
    fn look(&mut self, activity: &ActivityId) -> Advice {
        if let Some(waiting) = &mut self.looking {
            let (alarm, seen) = alarm::set();
            waiting.push(alarm);
            return Advice::Wait(seen);
        }
        self.looking = Some(Vec::new());
        Advice::Look(Looking(activity.clone()))
    }
}

struct SoldOut {
    at: Millis,
    quantity: i64,
    winners: HashSet<[u8; 4]>,
}

thread_local! {
    static MEMORY: RefCell<HashMap<ActivityId, Memory>> = RefCell::default();
}

/// Marks that a request is looking; dropped with it, however it ends, it wakes those who wait.
pub struct Looking(ActivityId);

impl Drop for Looking {
    fn drop(&mut self) {
        MEMORY.with_borrow_mut(|all| {
            if let Some(memory) = all.get_mut(&self.0) {
                memory.looking = None;
            }
        });
    }
}

/// What memory says of a wish at `now`.
pub fn advise(wish: &Reservation, now: Millis) -> Advice {
    let activity = wish.order_no.activity();
    MEMORY.with_borrow_mut(|all| {
        if all.len() >= MOST && !all.contains_key(activity) {
            all.clear();
        }
        let memory = all.entry(activity.clone()).or_default();
        // What is from the future is from a clock that has jumped: its age is not known. While somebody looks, the others
        // read on for a moment.
        let most = if memory.looking.is_some() { MAX_AGE_MS + READ_ON_MS } else { MAX_AGE_MS };
        let fresh = |at: Millis| (0..=most).contains(&(now.0 - at.0));
        let Some((gate, _, offset)) = memory.gate.as_ref().filter(|(_, at, _)| fresh(*at)) else {
            return memory.look(activity);
        };
        if let Some((code, wait_ms)) = closed(gate, now.plus(*offset), &wish.start_key) {
            return Advice::Refuse(code, wait_ms);
        }
        if !memory.banned.is_empty() {
            memory.banned.retain(|_, at| fresh(*at));
            if memory.banned.contains_key(&(wish.user.clone(), wish.ip.clone())) {
                return Advice::Refuse(Code::Banned, 0);
            }
        }
        match memory.sold_out.get(&wish.sku) {
            Some(sold)
                if wish.quantity >= sold.quantity && !sold.winners.contains(&fingerprint(wish.order_no.ulid())) =>
            {
                if fresh(sold.at) {
                    Advice::Refuse(Code::SoldOut, 0)
                } else {
                    memory.look(activity)
                }
            }
            _ => Advice::Ask,
        }
    })
}

/// Why the gate is closed to a start key at Redis's `now`.
fn closed(gate: &GateFacts, now: Millis, start_key: &str) -> Option<(Code, i64)> {
    match gate.phase(now) {
        Phase::Ended => Some((Code::Ended, 0)),
        Phase::Paused => Some((Code::Paused, 0)),
        Phase::Scheduled => Some((Code::NotOpen, gate.starts_at.0 - now.0)),
        Phase::Open if gate.shed => Some((Code::Overloaded, 5_000)),
        Phase::Open => (start_key != gate.start_key).then_some((Code::StartKeyInvalid, 0)),
    }
}

/// Remembers what an answer of Redis showed.
pub fn learn(wish: &Reservation, decision: &Decision, now: Millis) {
    MEMORY.with_borrow_mut(|all| {
        let Some(memory) = all.get_mut(wish.order_no.activity()) else { return };
        if let Some(gate) = &decision.gate {
            memory.gate = Some((gate.clone(), now, decision.now.0 - now.0));
        }
        match &decision.outcome {
            Outcome::SoldOut(winners) => {
                let winners = winners.iter().copied().collect();
                memory.sold_out.insert(wish.sku.clone(), SoldOut { at: now, quantity: wish.quantity, winners });
            }
            // A new order means that there is stock again.
            Outcome::Queued(_) => {
                memory.sold_out.remove(&wish.sku);
            }
            Outcome::Refused(Code::Banned, _) if memory.banned.len() < MOST => {
                memory.banned.insert((wish.user.clone(), wish.ip.clone()), now);
            }
            Outcome::Refused(..) => {}
        }
    });
}
