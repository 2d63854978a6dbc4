//! What buyers and operator observed of a sale: the input of the verdict.

pub mod line;
#[cfg(test)]
pub mod test_sales;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Serialize, Serializer};

use self::line::Wait;
use super::plan::Intent;
use crate::wire::{LedgerStock, Order, OrderStatus, SkuAudit, SkuStock};

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
    /// Reservations of robots that were answered; `None` without robots.
    pub robot_tries: Option<usize>,
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

/// What one poll of an order showed.
#[derive(Debug, Clone)]
pub struct Seen {
    pub end: LastSeen,
    pub reason: Option<String>,
    /// Whether it had a place in the line. Only Redis, which makes the offers, knows the place.
    pub has_place: bool,
}

impl From<Order> for Seen {
    fn from(order: Order) -> Self {
        Self { end: LastSeen::Status(order.status), reason: order.reason, has_place: order.ahead.is_some() }
    }
}

impl From<LastSeen> for Seen {
    fn from(end: LastSeen) -> Self {
        Self { end, reason: None, has_place: false }
    }
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

    /// The order's units if it is certainly live, else 0.
    pub fn live_units(&self) -> i64 {
        if self.status().is_some_and(OrderStatus::is_live) { self.quantity.into() } else { 0 }
    }

    /// Records what a poll showed that was sent at `asked_at` and answered at `answered_at`.
    pub fn record(&mut self, seen: Seen, asked_at: Duration, answered_at: Duration) {
        let Seen { end, reason, has_place } = seen;
        (self.end, self.reason) = (end, reason);
        match end {
            LastSeen::Status(OrderStatus::Waiting) => self.record_waiting(has_place.then_some(asked_at)),
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

#[cfg(test)]
pub mod tests {
    use super::{test_sales::correct_sale, *};

    pub fn seconds(span: Interval) -> (u64, u64) {
        (span.from.as_secs(), span.until.as_secs())
    }

    fn live_intervals_after(statuses: &[(OrderStatus, u64)]) -> Vec<(u64, u64)> {
        let mut order = correct_sale().orders[0].clone();
        order.live_intervals = vec![Interval { from: Duration::from_secs(1), until: Duration::from_secs(1) }];
        order.safe_until = Duration::from_secs(10);
        for (status, asked_at) in statuses {
            let seen = LastSeen::Status(*status).into();
            order.record(seen, Duration::from_secs(*asked_at), Duration::from_secs(asked_at + 1));
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
