//! Order events for the shop (E7), as signed Standard Webhooks messages.

use serde_json::json;

use crate::{
    order::{Order, OrderStatus},
    time::Millis,
    webhook::{SignedMessage, sign},
};

/// Delay before the next attempt after each failed attempt, in milliseconds: the retry schedule of the Standard
/// Webhooks specification. The first attempt is immediate; after the tenth failed attempt the event is marked failed.
const RETRY_DELAYS_MS: [i64; 9] = {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]
};

/// Delay in milliseconds after `attempts` failed attempts (1 or more). `None` if no attempt is left.
#[must_use]
pub fn retry_delay_ms(attempts: i64) -> Option<i64> {
    usize::try_from(attempts - 1).ok().and_then(|index| RETRY_DELAYS_MS.get(index).copied())
}

/// A status that an order reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The order at that moment.
    pub order: Order,
    /// When the order reached the status.
    pub happened_at: Millis,
}

impl Event {
    /// The event's id: unique, because the ledger keeps at most one event for each status of an order.
    ///
    /// It contains no full stop, which separates the parts of the signed text.
    #[must_use]
    pub fn id(&self) -> String {
        format!("evt_{}_{}", self.order.order_no.ulid(), self.order.status.as_str())
    }

    /// The event's type, such as `order.paid`.
    #[must_use]
    pub fn event_type(&self) -> String {
        format!("order.{}", self.order.status.as_str())
    }

    /// The message to send at `now`, signed with each of `secrets` (separated by spaces; two during a rotation).
    ///
    /// `None` if there is no secret or one of them is malformed.
    #[must_use]
    pub fn message(&self, secrets: &str, now: Millis) -> Option<SignedMessage> {
        let body = json!({ "type": self.event_type(), "timestamp": self.happened_at, "data": self.order }).to_string();
        sign(secrets, self.id(), now, body)
    }
}

/// The position of a status in an order's life. Events of an order are sent in this order; an order has at most one
/// event for each step.
#[must_use]
pub fn step(status: OrderStatus) -> i64 {
    match status {
        OrderStatus::Queued | OrderStatus::Failed => 0,
        OrderStatus::PendingPayment => 1,
        OrderStatus::Cancelled | OrderStatus::Expired => 2,
        OrderStatus::Paid => 3,
        OrderStatus::Refunding => 4,
        OrderStatus::Refunded => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_increases_the_step() {
        for from in OrderStatus::ALL {
            for to in OrderStatus::ALL.into_iter().filter(|to| from.can_become(*to) && *to != OrderStatus::Failed) {
                assert!(step(to) > step(from), "{from:?} → {to:?}");
            }
        }
    }
}
