//! The line: what is observed of an order that waits for its unit.

use std::time::Duration;

use serde::Serialize;

use super::{Interval, ObservedOrder, as_millis, as_optional_millis, safe_until};
use crate::wire::OrderStatus;

/// An order's time in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// It certainly waited until this time, from its `202` on; 0 if only the ledger said that it waits.
    #[serde(serialize_with = "as_millis")]
    pub until: Duration,
    /// When it was first seen with a unit.
    #[serde(serialize_with = "as_optional_millis")]
    pub offered_at: Option<Duration>,
}

/// Why an entry of the line ends without an order.
const ENTRY_ENDS: [&str; 5] = ["left_line", "removed_by_operator", "limit_reached", "banned", "sale_ended"];

impl ObservedOrder {
    /// Whether it is, or ended as, an entry of the line: it never was an order.
    pub fn is_entry(&self) -> bool {
        match self.status() {
            Some(OrderStatus::Waiting) => true,
            Some(OrderStatus::Cancelled | OrderStatus::Expired) => {
                self.reason.as_deref().is_some_and(|reason| ENTRY_ENDS.contains(&reason))
            }
            _ => false,
        }
    }

    /// When its unit was first seen to be offered, if it waited for one.
    pub fn offered_at(&self) -> Option<Duration> {
        self.wait?.offered_at
    }

    /// Records a poll that showed the order waiting; `certain_at` is when it was sent if the order had its place. The ledger
    /// shows an order waiting until its offer is written.
    pub(super) fn record_waiting(&mut self, certain_at: Option<Duration>) {
        let wait = self.wait.get_or_insert(Wait { until: Duration::ZERO, offered_at: None });
        // One that the app took back its offer from waits again, which I9 does not judge.
        if wait.offered_at.is_none() {
            wait.until = certain_at.unwrap_or(wait.until);
        }
        self.live_intervals.clear();
    }

    /// An order that waited is seen with its unit.
    pub(super) fn record_offer(&mut self, status: OrderStatus, answered_at: Duration) {
        let Some(wait) = &mut self.wait else { return };
        if wait.offered_at.is_none() {
            wait.offered_at = Some(answered_at);
            self.safe_until = safe_until(wait.until, self.offer_timeout);
        }
        if status.is_live() && self.live_intervals.is_empty() {
            self.live_intervals.push(Interval { from: answered_at, until: answered_at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{LastSeen, Seen, test_sales::correct_sale, tests::seconds},
        *,
    };

    #[test]
    fn an_order_that_waited_is_live_from_the_poll_that_shows_its_unit() {
        let mut order = correct_sale().orders[0].clone();
        order.offer_timeout = Duration::from_secs(11);
        for (status, has_place, asked_at) in [
            (OrderStatus::Waiting, true, 3),
            (OrderStatus::Waiting, true, 5),
            // From a ledger that does not have its offer.
            (OrderStatus::Waiting, false, 7),
            (OrderStatus::Queued, false, 8),
            (OrderStatus::Paid, false, 9),
        ] {
            let seen = Seen { end: LastSeen::Status(status), reason: None, has_place };
            order.record(seen, Duration::from_secs(asked_at), Duration::from_secs(asked_at + 1));
        }
        assert_eq!(order.wait, Some(Wait { until: Duration::from_secs(5), offered_at: Some(Duration::from_secs(9)) }));
        assert_eq!(order.safe_until, Duration::from_secs(15));
        assert_eq!(order.live_intervals.into_iter().map(seconds).collect::<Vec<_>>(), [(9, 9)]);
    }
}
