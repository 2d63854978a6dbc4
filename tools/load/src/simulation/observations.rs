//! What buyers and operator observed of a sale: the input of the verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Serialize, Serializer};

use super::plan::Intent;
use crate::wire::{LedgerStock, OrderStatus, SkuAudit, SkuStock};

/// Everything that the verdict checks. Times count from the start of the run.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    pub per_user: u32,
    pub totals: BTreeMap<String, i64>,
    /// Every order that a buyer knows of.
    pub orders: Vec<ObservedOrder>,
    /// Order numbers per ticket, one for each `202`, including those of replays and double clicks.
    pub orders_by_ticket: Vec<Vec<String>>,
    /// Orders whose ticket was refused for good, and not as sold out, although the order existed.
    pub denied_orders: Vec<String>,
    /// Reservations whose outcome is unknown even after the buyer listed their own orders.
    pub unknown_outcomes: u64,
    /// Stock that the admin API reported repeatedly during the sale.
    pub stock_samples: Vec<SkuStock>,
    /// Stock at the end. `None` if the admin API did not respond.
    pub final_stock: Option<Vec<SkuStock>>,
    /// Orders by status at the end, as the admin API counts them. `None` if it did not respond.
    pub orders_by_status: Option<BTreeMap<String, u64>>,
    /// The app's own audit at the end. `None` if it did not respond.
    pub audit: Option<Vec<SkuAudit>>,
    /// Orders with an overpayment for which the admin API shows a refund.
    pub refunded_overpayments: BTreeSet<String>,
    /// SKUs of which units were free after a sweep, and still after the next one, while buyers waited; `None` without a line.
    pub unoffered: Option<BTreeSet<String>>,
    /// Orders among the dead letters. `None` if the admin API did not respond.
    pub dead_letters: Option<BTreeSet<String>>,
}

/// One order and what was observed of it.
#[derive(Debug, Clone, Serialize)]
pub struct ObservedOrder {
    pub order_no: String,
    pub user: String,
    pub sku: String,
    pub quantity: u32,
    /// The app had no request for it before.
    #[serde(serialize_with = "as_millis")]
    pub requested_at: Duration,
    /// When it was first seen: as a rule in the `202`.
    #[serde(serialize_with = "as_millis")]
    pub accepted_at: Duration,
    /// Its time in the line; `None` if it got its units at once.
    pub wait: Option<Wait>,
    /// Time to pay if its unit is offered.
    #[serde(skip)]
    pub offer_timeout: Duration,
    /// Intervals in which the order was certainly live: it owned its units.
    #[serde(rename = "live")]
    pub live_intervals: Vec<Interval>,
    /// The order cannot have expired before this time, even if unpaid.
    #[serde(serialize_with = "as_millis")]
    pub safe_until: Duration,
    pub intent: Intent,
    /// Whether the provider confirmed the payment.
    pub payment: Confirmation,
    /// Whether the provider confirmed a second payment.
    pub extra: Confirmation,
    /// Whether the app accepted a refund request.
    pub refund: Confirmation,
    /// Whether the app confirmed a cancellation.
    pub cancellation: Confirmation,
    /// When the app had answered the cancellation.
    #[serde(skip)]
    pub cancelled_at: Option<Duration>,
    /// Whether it was first seen paid before it could expire; `None` if it was never seen paid.
    pub paid_in_time: Option<bool>,
    pub end: LastSeen,
    /// The reason of its last status.
    pub reason: Option<String>,
}

/// An order's time in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// It certainly waited until this time, from its `202` on.
    #[serde(serialize_with = "as_millis")]
    pub until: Duration,
    /// When it was first seen with a unit.
    #[serde(serialize_with = "as_optional_millis")]
    pub offered_at: Option<Duration>,
}

/// Why an entry of the line ends without an order.
const ENTRY_ENDS: [&str; 5] = ["left_line", "removed_by_operator", "limit_reached", "banned", "sale_ended"];

/// Deadlines of the app may be rounded to whole seconds.
const DEADLINE_ROUNDING: Duration = Duration::from_secs(1);

/// Until when an order that was made at `from` or later cannot have expired.
pub fn safe_until(from: Duration, timeout: Duration) -> Duration {
    from + timeout.saturating_sub(DEADLINE_ROUNDING)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Interval {
    #[serde(serialize_with = "as_millis")]
    pub from: Duration,
    #[serde(serialize_with = "as_millis")]
    pub until: Duration,
}

fn as_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_millis().try_into().unwrap_or(u64::MAX))
}

fn as_optional_millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_millis()).serialize(serializer)
}

/// How certain the buyer is that an action took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// It was not requested, or it was refused.
    No,
    /// It was requested, but the response was lost.
    Unknown,
    Yes,
}

/// What the last poll of an order showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "seen", content = "status")]
pub enum LastSeen {
    /// The order, with this status.
    Status(OrderStatus),
    /// `404`: the app does not know the order.
    Missing,
    /// No readable response.
    Unreadable,
}

impl ObservedOrder {
    /// An order that nothing is known of but that it was live at `seen`.
    pub fn new(order_no: String, user: String, sku: String, quantity: u32, seen: Duration) -> Self {
        Self {
            order_no,
            user,
            sku,
            quantity,
            requested_at: Duration::ZERO,
            accepted_at: seen,
            wait: None,
            offer_timeout: Duration::ZERO,
            live_intervals: vec![Interval { from: seen, until: seen }],
            safe_until: seen,
            intent: Intent::Leave,
            payment: Confirmation::No,
            extra: Confirmation::No,
            refund: Confirmation::No,
            cancellation: Confirmation::No,
            cancelled_at: None,
            paid_in_time: None,
            end: LastSeen::Unreadable,
            reason: None,
        }
    }

    /// The last status, if one was read.
    pub fn status(&self) -> Option<OrderStatus> {
        match self.end {
            LastSeen::Status(status) => Some(status),
            LastSeen::Missing | LastSeen::Unreadable => None,
        }
    }

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

    /// The order's units if it is certainly live, else 0.
    pub fn live_units(&self) -> i64 {
        if self.status().is_some_and(OrderStatus::is_live) { self.quantity.into() } else { 0 }
    }

    /// Records a poll that was sent at `asked_at` and answered at `answered_at`.
    pub fn record(&mut self, end: LastSeen, reason: Option<String>, asked_at: Duration, answered_at: Duration) {
        (self.end, self.reason) = (end, reason);
        match end {
            LastSeen::Status(OrderStatus::Waiting) => {
                let wait = self.wait.get_or_insert(Wait { until: asked_at, offered_at: None });
                // One that the app took back its offer from waits again, which I9 does not judge.
                if wait.offered_at.is_none() {
                    wait.until = asked_at;
                }
                self.live_intervals.clear();
            }
            LastSeen::Status(status) if !self.is_entry() => self.record_offer(status, answered_at),
            _ => {}
        }
        match end {
            LastSeen::Status(status) if status.is_held() => self.extend_live_interval(asked_at),
            LastSeen::Status(OrderStatus::Paid) => self.record_paid(asked_at, answered_at),
            // It expired, but not before `safe_until`.
            LastSeen::Status(OrderStatus::Expired) => self.extend_live_interval(self.safe_until),
            LastSeen::Status(_) | LastSeen::Missing | LastSeen::Unreadable => {}
        }
    }

    /// An order that waited is seen with its unit.
    fn record_offer(&mut self, status: OrderStatus, answered_at: Duration) {
        let Some(wait) = &mut self.wait else { return };
        if wait.offered_at.is_none() {
            wait.offered_at = Some(answered_at);
            self.safe_until = safe_until(wait.until, self.offer_timeout);
        }
        if status.is_live() && self.live_intervals.is_empty() {
            self.live_intervals.push(Interval { from: answered_at, until: answered_at });
        }
    }

    /// Extends the first interval to `moment`: an unpaid order is live without interruption from the start.
    fn extend_live_interval(&mut self, moment: Duration) {
        if let Some(first) = self.live_intervals.first_mut() {
            first.until = first.until.max(moment);
        }
    }

    /// An order that is paid in time was live throughout. One that is paid late may have lost its units to another
    /// order in between, so it starts a second interval.
    fn record_paid(&mut self, asked_at: Duration, answered_at: Duration) {
        if answered_at > self.safe_until && self.live_intervals.len() == 1 && self.paid_in_time.is_none() {
            self.paid_in_time = Some(false);
            self.live_intervals.push(Interval { from: answered_at, until: answered_at });
        }
        self.paid_in_time.get_or_insert(true);
        if let Some(last) = self.live_intervals.last_mut() {
            last.until = last.until.max(asked_at);
        }
    }
}

impl Observations {
    /// The ledger's figures per SKU, from the audit.
    pub fn ledger_stock(&self) -> impl Iterator<Item = (&str, &LedgerStock)> {
        let skus = self.audit.iter().flatten();
        skus.filter_map(|sku| Some((sku.redis.sku.as_str(), sku.ledger.as_ref()?)))
    }

    /// Number of orders whose last status could not be read.
    pub fn unreadable_orders(&self) -> usize {
        self.orders.iter().filter(|order| order.end == LastSeen::Unreadable).count()
    }

    /// Live units per SKU, over all orders that buyers know of.
    pub fn live_units(&self) -> BTreeMap<&str, i64> {
        let mut units: BTreeMap<&str, i64> = self.totals.keys().map(|sku| (sku.as_str(), 0)).collect();
        for order in &self.orders {
            *units.entry(&order.sku).or_default() += order.live_units();
        }
        units
    }
}

/// A correct sale of SKU `a` with 10 units: three orders with five units in total, of which one is paid, one cancelled
/// and one expired. The baseline of the verdict's tests.
#[cfg(test)]
pub(super) fn correct_sale() -> Observations {
    let order = |n: u32, quantity, intent, payment, cancellation, status| ObservedOrder {
        live_intervals: vec![Interval { from: Duration::from_secs(1), until: Duration::from_secs(2) }],
        safe_until: Duration::from_secs(2),
        intent,
        payment,
        cancellation,
        end: LastSeen::Status(status),
        ..ObservedOrder::new(format!("s.{n}"), format!("user-{n}"), "a".to_owned(), quantity, Duration::ZERO)
    };
    let stock =
        |left, held, sold| SkuStock { sku: "a".to_owned(), total: 10, left, held, sold, waiting: 0, to_offer: 0 };
    Observations {
        per_user: 2,
        totals: BTreeMap::from([("a".to_owned(), 10)]),
        orders: vec![
            order(1, 2, Intent::Pay, Confirmation::Yes, Confirmation::No, OrderStatus::Paid),
            order(2, 1, Intent::Cancel, Confirmation::No, Confirmation::Yes, OrderStatus::Cancelled),
            order(3, 2, Intent::Leave, Confirmation::No, Confirmation::No, OrderStatus::Expired),
        ],
        orders_by_ticket: vec![
            vec!["s.1".to_owned(), "s.1".to_owned()],
            vec!["s.2".to_owned()],
            vec!["s.3".to_owned()],
        ],
        stock_samples: vec![stock(10, 0, 0), stock(5, 5, 0), stock(8, 0, 2)],
        final_stock: Some(vec![stock(8, 0, 2)]),
        orders_by_status: Some(BTreeMap::from([
            ("paid".to_owned(), 1),
            ("cancelled".to_owned(), 1),
            ("expired".to_owned(), 1),
        ])),
        audit: Some(vec![SkuAudit {
            redis: stock(8, 0, 2),
            ledger: Some(LedgerStock { live: 2, counted: 2, most_per_user: 2 }),
            drift: 0,
        }]),
        dead_letters: Some(BTreeSet::new()),
        ..Observations::default()
    }
}

/// The correct sale and a line: `s.4` and `s.5` were offered a unit and paid, `s.6` left, `s.7` waited until the end.
#[cfg(test)]
pub(super) fn sale_with_line() -> Observations {
    let mut sale = correct_sale();
    let second = Duration::from_secs;
    for (n, intent, offered_at, end, reason) in [
        (4, Intent::Pay, Some(27), OrderStatus::Paid, None),
        (5, Intent::Pay, Some(29), OrderStatus::Paid, None),
        (6, Intent::Leave, None, OrderStatus::Cancelled, Some("left_line")),
        (7, Intent::Leave, None, OrderStatus::Expired, Some("sale_ended")),
    ] {
        let confirmed = |yes| if yes { Confirmation::Yes } else { Confirmation::No };
        sale.orders.push(ObservedOrder {
            requested_at: second(n + 5),
            accepted_at: second(n + 5) + Duration::from_millis(500),
            wait: Some(Wait { until: second(25), offered_at: offered_at.map(second) }),
            live_intervals: Vec::new(),
            intent,
            payment: confirmed(offered_at.is_some()),
            cancellation: confirmed(n == 6),
            end: LastSeen::Status(end),
            reason: reason.map(str::to_owned),
            ..ObservedOrder::new(format!("s.{n}"), format!("user-{n}"), "a".to_owned(), 1, Duration::ZERO)
        });
        sale.orders_by_ticket.push(vec![format!("s.{n}")]);
    }
    // Of two units that came back.
    (sale.orders[1].cancelled_at, sale.orders[2].safe_until) = (Some(second(26)), second(27));
    sale.orders[2].quantity = 1;
    let stock = SkuStock { left: 6, sold: 4, ..sale.stock_samples[0].clone() };
    sale.final_stock = Some(vec![stock.clone()]);
    sale.orders_by_status.as_mut().unwrap().insert("paid".to_owned(), 3);
    let audit = &mut sale.audit.as_mut().unwrap()[0];
    (audit.redis, audit.ledger) = (stock, Some(LedgerStock { live: 4, counted: 4, most_per_user: 2 }));
    sale.unoffered = Some(BTreeSet::new());
    sale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(span: Interval) -> (u64, u64) {
        (span.from.as_secs(), span.until.as_secs())
    }

    fn live_intervals_after(statuses: &[(OrderStatus, u64)]) -> Vec<(u64, u64)> {
        let mut order = correct_sale().orders[0].clone();
        order.live_intervals = vec![Interval { from: Duration::from_secs(1), until: Duration::from_secs(1) }];
        order.safe_until = Duration::from_secs(10);
        for (status, asked_at) in statuses {
            order.record(
                LastSeen::Status(*status),
                None,
                Duration::from_secs(*asked_at),
                Duration::from_secs(asked_at + 1),
            );
        }
        order.live_intervals.into_iter().map(seconds).collect()
    }

    #[test]
    fn an_order_paid_in_time_was_live_throughout() {
        assert_eq!(
            live_intervals_after(&[(OrderStatus::PendingPayment, 3), (OrderStatus::Paid, 5), (OrderStatus::Paid, 30)]),
            [(1, 30)]
        );
    }

    #[test]
    fn an_order_paid_late_may_not_have_been_live_in_between() {
        assert_eq!(
            live_intervals_after(&[(OrderStatus::PendingPayment, 3), (OrderStatus::Paid, 20), (OrderStatus::Paid, 30)]),
            [(1, 3), (21, 30)]
        );
    }

    #[test]
    fn an_expired_order_was_live_until_it_could_expire() {
        assert_eq!(live_intervals_after(&[(OrderStatus::PendingPayment, 3), (OrderStatus::Expired, 20)]), [(1, 10)]);
    }

    #[test]
    fn an_order_that_waited_is_live_from_the_poll_that_shows_its_unit() {
        let mut order = correct_sale().orders[0].clone();
        order.offer_timeout = Duration::from_secs(11);
        for (status, asked_at) in
            [(OrderStatus::Waiting, 3), (OrderStatus::Waiting, 5), (OrderStatus::Queued, 8), (OrderStatus::Paid, 9)]
        {
            order.record(
                LastSeen::Status(status),
                None,
                Duration::from_secs(asked_at),
                Duration::from_secs(asked_at + 1),
            );
        }
        assert_eq!(order.wait, Some(Wait { until: Duration::from_secs(5), offered_at: Some(Duration::from_secs(9)) }));
        assert_eq!(order.safe_until, Duration::from_secs(15));
        assert_eq!(order.live_intervals.into_iter().map(seconds).collect::<Vec<_>>(), [(9, 9)]);
    }

    #[test]
    fn a_refund_does_not_extend_the_live_interval() {
        assert_eq!(
            live_intervals_after(&[
                (OrderStatus::PendingPayment, 3),
                (OrderStatus::Refunding, 20),
                (OrderStatus::Refunded, 30)
            ]),
            [(1, 3)]
        );
    }
}
