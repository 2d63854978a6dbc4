//! What an instance knows of an activity, to refuse reservations without a Redis call (A4, C6).
//!
//! It holds the gate, the SKUs that run short, and bans for at most a second. The replies to reservations fill it, so it makes no
//! Redis calls of its own. A sold-out SKU is refused to every ticket, also to one that has made an order: the refusal
//! names the order to read (B3).

use std::collections::HashMap;

use domain::{
    activity::Phase,
    http::problem::Code,
    ids::{SkuId, UserId},
    time::Millis,
};
use stores::ttl;

use crate::reserve::{Gate, Position, ReserveOutcome, ReserveReply, ReserveRequest};

const MAX_BANS: usize = 64;

/// What to do with a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Refuse it. The number is the wait in milliseconds for `Retry-After`; 0 is none.
    Refuse(Code, i64),
    /// Refuse it: fewer units are left, as many.
    InsufficientStock(i64),
    /// Send it to Redis.
    Send,
}

/// What an instance knows of an activity.
#[derive(Default)]
pub struct GateCache {
    /// The gate, when it was read by the instance's clock, and Redis's clock minus the instance's, in milliseconds.
    gate: Option<(Gate, Millis, i64)>,
    shortages: HashMap<SkuId, Shortage>,
    /// Pairs of user and client address that Redis refused because of a ban, and when. For the next second, requests of
    /// the same pair cost no Redis call (B6).
    banned: HashMap<(UserId, String), Millis>,
    /// The last order that Redis accepted and told this instance of, however long ago (G16).
    pub last_order: Position,
}

/// Redis's last refusal for a SKU because too few units were left.
struct Shortage {
    /// When it was refused, by the instance's clock.
    at: Millis,
    /// Units that were left. A request for no more is sent to Redis.
    left: i64,
}

impl GateCache {
    /// Decides what to do with a reservation at `now`, by the instance's clock, while another request refreshes the gate
    /// or none does. `None`: a request must refresh the gate first, that is, request it in Redis's reply.
    pub fn decide(&mut self, request: &ReserveRequest, now: Millis, is_refreshing: bool) -> Option<Decision> {
        let is_usable = |at: Millis| ttl::is_usable(at, now, is_refreshing);
        let (gate, _, offset) = self.gate.as_ref().filter(|(_, at, _)| is_usable(*at))?;
        if let Some((code, wait_ms)) = gate_refusal(gate, now.plus(*offset), &request.start_key) {
            return Some(Decision::Refuse(code, wait_ms));
        }
        if !self.banned.is_empty() {
            self.banned.retain(|_, at| is_usable(*at));
            if self.banned.contains_key(&(request.user.clone(), request.ip.clone())) {
                return Some(Decision::Refuse(Code::Banned, 0));
            }
        }
        match self.shortages.get(&request.sku) {
            Some(shortage) if request.quantity > shortage.left => {
                is_usable(shortage.at).then_some(match shortage.left {
                    0 => Decision::Refuse(Code::SoldOut, 0),
                    left => Decision::InsufficientStock(left),
                })
            }
            _ => Some(Decision::Send),
        }
    }

    /// The moment `at` of the instance's clock by Redis's clock, as far as replies have told it: before the first one the
    /// clocks count as equal.
    pub fn redis_time(&self, at: Millis) -> Millis {
        at.plus(self.gate.as_ref().map_or(0, |(_, _, offset)| *offset))
    }

    /// Learns the gate, the SKU's state, the ban and the last order from Redis's reply to a reservation.
    pub fn update(&mut self, request: &ReserveRequest, reply: &ReserveReply, now: Millis) {
        if let Some(gate) = &reply.gate {
            self.gate = Some((gate.clone(), now, reply.now.0 - now.0));
        }
        self.last_order = self.last_order.max(reply.position);
        match reply.outcome {
            ReserveOutcome::Refused(Code::SoldOut, _) => self.note_shortage(request, reply, 0, now),
            ReserveOutcome::InsufficientStock(left) => self.note_shortage(request, reply, left, now),
            ReserveOutcome::Refused(Code::Banned, _) if self.banned.len() < MAX_BANS => {
                self.banned.insert((request.user.clone(), request.ip.clone()), now);
            }
            // One unit may be had, now or later.
            ReserveOutcome::OnlyOneByOne | ReserveOutcome::WaitsAlready(_) => {
                self.shortages.remove(&request.sku);
            }
            // A new order means that units are available again, and a new entry that the line has room. Another answer to a refreshing request leaves that open:
            // without the entry, the next requests do not wait for one another.
            ReserveOutcome::Queued(_) | ReserveOutcome::Refused(..) | ReserveOutcome::PriceChanged(_) => {
                let has_new_order = matches!(reply.outcome, ReserveOutcome::Queued(_)) && !reply.is_repeat;
                if has_new_order || reply.gate.is_some() {
                    self.shortages.remove(&request.sku);
                }
            }
        }
    }

    /// A refusal that was in flight does not replace one that found fewer units.
    fn note_shortage(&mut self, request: &ReserveRequest, reply: &ReserveReply, left: i64, now: Millis) {
        if reply.gate.is_some() || self.shortages.get(&request.sku).is_none_or(|known| left <= known.left) {
            self.shortages.insert(request.sku.clone(), Shortage { at: now, left });
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
