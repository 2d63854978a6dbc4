//! What an instance knows of an activity, to refuse reservations without a Redis call (A4, C6).
//!
//! It holds the gate, sold-out SKUs and bans for at most a second. The replies to reservations fill it, so it makes no
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
    /// Send it to Redis.
    Send,
}

/// What an instance knows of an activity.
#[derive(Default)]
pub struct GateCache {
    /// The gate, when it was read by the instance's clock, and Redis's clock minus the instance's, in milliseconds.
    gate: Option<(Gate, Millis, i64)>,
    sold_out: HashMap<SkuId, SoldOut>,
    /// Pairs of user and client address that Redis refused because of a ban, and when. For the next second, requests of
    /// the same pair cost no Redis call (B6).
    banned: HashMap<(UserId, String), Millis>,
    /// The last order that Redis accepted and told this instance of, however long ago (G16).
    pub last_order: Position,
}

/// Redis's last refusal for a SKU because it was sold out.
struct SoldOut {
    /// When it was refused, by the instance's clock.
    at: Millis,
    /// The quantity that was refused. A smaller one may still be available, and is sent to Redis.
    quantity: i64,
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
        match self.sold_out.get(&request.sku) {
            Some(sold) if request.quantity < sold.quantity => Some(Decision::Send),
            Some(sold) => is_usable(sold.at).then_some(Decision::Refuse(Code::SoldOut, 0)),
            None => Some(Decision::Send),
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
        let sold_out = self.sold_out.get(&request.sku);
        match reply.outcome {
            ReserveOutcome::Refused(Code::SoldOut, _) => {
                // A larger quantity that was in flight does not replace the refusal of a smaller one.
                if reply.gate.is_some() || sold_out.is_none_or(|sold| request.quantity <= sold.quantity) {
                    self.sold_out.insert(request.sku.clone(), SoldOut { at: now, quantity: request.quantity });
                }
            }
            ReserveOutcome::Refused(Code::Banned, _) if self.banned.len() < MAX_BANS => {
                self.banned.insert((request.user.clone(), request.ip.clone()), now);
            }
            // A new order means that units are available again. Another answer to a refreshing request leaves that open:
            // without the entry, the next requests do not wait for one another.
            ReserveOutcome::Queued(_) | ReserveOutcome::Refused(..) => {
                let has_new_order = matches!(reply.outcome, ReserveOutcome::Queued(_)) && !reply.is_repeat;
                if has_new_order || reply.gate.is_some() {
                    self.sold_out.remove(&request.sku);
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
