//! Orders: statuses, legal transitions, and the JSON document.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::{Currency, Money},
    time::Millis,
};

crate::words! {
    /// Status of an order. [`OrderStatus::TRANSITIONS`] lists the legal transitions.
    ///
    /// Requeuing a failed order is not a transition: the ledger has no row of it, and Redis accepts it anew as `Queued`. Nor
    /// is an offer: who waits in a line has no order yet, only its number.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(transform = OrderStatus::describe)]
    pub enum OrderStatus {
        /// In the line for a unit that comes back; then `queued`, or `cancelled` or `expired` without one.
        Waiting = "waiting",
        /// Accepted by Redis, not yet in the ledger.
        Queued = "queued",
        /// In the ledger, not yet paid.
        PendingPayment = "pending_payment",
        /// Paid.
        Paid = "paid",
        /// Cancelled by the buyer or an operator.
        Cancelled = "cancelled",
        /// Not paid in time.
        Expired = "expired",
        /// Could not be written to the ledger; the order's `reason` says why.
        Failed = "failed",
        /// A refund was started.
        Refunding = "refunding",
        /// The provider confirmed the refund.
        Refunded = "refunded",
    }
}

impl OrderStatus {
    /// The legal transitions. The trigger `orders_move` of the ledger allows those of rows, and `lua/sync.lua` every
    /// sequence of them, since Redis may have missed some. Unit tests of `orders` and `stores` compare the texts of both with this
    /// table; `tests/workflows/ledger.rs` tries every pair of statuses on both ledgers.
    pub const TRANSITIONS: [(OrderStatus, OrderStatus); 11] = {
        use OrderStatus::{Cancelled, Expired, Failed, Paid, PendingPayment, Queued, Refunded, Refunding};
        [
            (Queued, PendingPayment),
            (Queued, Failed),
            (PendingPayment, Paid),
            (PendingPayment, Cancelled),
            (PendingPayment, Expired),
            (Cancelled, Paid),
            (Cancelled, Refunding),
            (Expired, Paid),
            (Expired, Refunding),
            (Paid, Refunding),
            (Refunding, Refunded),
        ]
    };

    /// Describes the status in its schema, with the legal transitions.
    fn describe(schema: &mut Schema) {
        let transitions = Self::TRANSITIONS.map(|(from, to)| format!("`{} → {}`", from.as_str(), to.as_str()));
        let description = format!(
            "Status of an order. The legal transitions are {}; of one that waits in a line `waiting → queued`, \
             `waiting → cancelled`, `waiting → expired`.",
            transitions.join(", ")
        );
        schema.insert("description".to_owned(), description.into());
    }

    /// Whether an event tells the shop of it.
    #[must_use]
    pub fn has_event(self) -> bool {
        !matches!(self, OrderStatus::Waiting | OrderStatus::Queued)
    }

    /// Whether an order with this status owns its units unpaid.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, OrderStatus::Queued | OrderStatus::PendingPayment)
    }

    /// Whether an order with this status certainly owns its units. A `refunding` one may not: it may have been paid too
    /// late to get any.
    #[must_use]
    pub fn is_live(self) -> bool {
        self.is_held() || self == OrderStatus::Paid
    }

    /// Whether an order with this status was paid, whatever became of the payment.
    #[must_use]
    pub fn is_paid(self) -> bool {
        matches!(self, OrderStatus::Paid | OrderStatus::Refunding | OrderStatus::Refunded)
    }

    /// Whether the transition to `next` is legal.
    #[must_use]
    pub fn can_become(self, next: OrderStatus) -> bool {
        OrderStatus::TRANSITIONS.contains(&(self, next))
    }

    /// Whether one or more transitions lead to `target`.
    #[must_use]
    pub fn can_reach(self, target: OrderStatus) -> bool {
        self.step_towards(target).is_some()
    }

    /// The first of the fewest transitions that lead to `target`.
    #[must_use]
    pub fn step_towards(self, target: OrderStatus) -> Option<OrderStatus> {
        self.next_statuses().filter(|next| next.distance(target).is_some()).min_by_key(|next| next.distance(target))
    }

    fn distance(self, target: OrderStatus) -> Option<usize> {
        if self == target {
            return Some(0);
        }
        self.next_statuses().filter_map(|next| next.distance(target)).min().map(|distance| distance + 1)
    }

    fn next_statuses(self) -> impl Iterator<Item = OrderStatus> {
        OrderStatus::TRANSITIONS.into_iter().filter(move |(from, _)| *from == self).map(|(_, to)| to)
    }
}

impl fmt::Display for OrderStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An order as read from Redis or the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The order number.
    pub order_no: OrderNo,
    /// The buyer.
    pub user: UserId,
    /// The status.
    pub status: OrderStatus,
    /// The SKU.
    pub sku: SkuId,
    /// Number of units.
    pub quantity: i64,
    /// The total price.
    pub money: Money,
    /// What operators gave back of it, or are about to, while the rest stays paid.
    pub refunded: i64,
    /// When it was reserved.
    pub created_at: Millis,
    /// Payment deadline.
    pub pay_by: Option<Millis>,
    /// When it was paid.
    pub paid_at: Option<Millis>,
    /// Why it has its status, such as `not_paid_in_time`.
    pub reason: Option<String>,
    /// The provider's payment page, once a payment session was opened.
    pub checkout_url: Option<String>,
    /// When the last payment was declined, as far as Redis knows.
    pub declined_at: Option<Millis>,
    /// While queued: number of orders ahead of it. While waiting: number of people ahead in the line; `None` without Redis.
    pub ahead: Option<i64>,
    /// While queued: estimated wait, in milliseconds.
    pub estimated_wait_ms: i64,
}

#[derive(Serialize, JsonSchema)]
struct OrderDocument<'a> {
    /// The order's number.
    order_no: &'a OrderNo,
    /// Its activity.
    activity: &'a ActivityId,
    /// Its status.
    status: OrderStatus,
    /// The SKU.
    sku: &'a SkuId,
    /// Units.
    #[schemars(range(min = 1))]
    quantity: i64,
    /// Price of all units, in minor units.
    #[schemars(range(min = 0))]
    amount: i64,
    /// Currency of the price.
    #[schemars(with = "Currency")]
    currency: &'a str,
    /// While queued: number of orders ahead of it. While waiting: number of people ahead in the line, which is left out while
    /// Redis is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    ahead: Option<i64>,
    /// While queued: estimated wait, in milliseconds.
    #[schemars(range(min = 0))]
    estimated_wait_ms: i64,
    /// When the units were reserved.
    created_at: Millis,
    /// While it waits for payment: the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    pay_by: Option<Millis>,
    /// When it was paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    paid_at: Option<Millis>,
    /// How much of the price operators gave back, or are about to, until the order is refunded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 1))]
    refunded_amount: Option<i64>,
    /// Why it has its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "str", extend("examples" = REASONS))]
    reason: Option<&'a str>,
    /// While it waits for payment: the payment page, once a payment session was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "str", extend("format" = "uri-reference"))]
    checkout_url: Option<&'a str>,
    /// While it waits for payment: when the last payment was declined. Nothing was taken, and the buyer may try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    declined_at: Option<Millis>,
}

/// Examples of [`Order::reason`].
const REASONS: [&str; 13] = [
    "not_paid_in_time",
    "cancelled_by_buyer",
    "cancelled_by_operator",
    "refund_requested",
    "refunded_by_operator",
    "paid_too_late",
    "no_room_in_ledger",
    "limit_reached_in_ledger",
    "old_epoch",
    "left_line",
    "limit_reached",
    "banned",
    "sale_ended",
];

impl Order {
    /// The order's activity.
    #[must_use]
    pub fn activity(&self) -> &ActivityId {
        self.order_no.activity()
    }

    /// The order as shown at `now`: an unpaid order is shown as expired from its deadline on, even before the sweeper
    /// has expired it (E3).
    #[must_use]
    pub fn effective_at(mut self, now: Millis) -> Self {
        if self.status == OrderStatus::PendingPayment && self.pay_by.is_some_and(|pay_by| pay_by <= now) {
            self.status = OrderStatus::Expired;
            self.reason = Some("not_paid_in_time".to_owned());
        }
        self
    }
}

/// The order document of the API. Members that do not apply to the status are omitted.
impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pending = self.status == OrderStatus::PendingPayment;
        let document = OrderDocument {
            order_no: &self.order_no,
            activity: self.activity(),
            status: self.status,
            sku: &self.sku,
            quantity: self.quantity,
            amount: self.money.amount,
            currency: &self.money.currency,
            ahead: self.ahead,
            estimated_wait_ms: self.estimated_wait_ms,
            created_at: self.created_at,
            pay_by: self.pay_by.filter(|_| pending),
            paid_at: self.paid_at,
            refunded_amount: Some(self.refunded).filter(|amount| *amount > 0 && self.status != OrderStatus::Refunded),
            reason: self.reason.as_deref().filter(|reason| !pending && !reason.is_empty()),
            checkout_url: self.checkout_url.as_deref().filter(|url| pending && !url.is_empty()),
            declined_at: self.declined_at.filter(|_| pending),
        };
        document.serialize(serializer)
    }
}

impl JsonSchema for Order {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Order".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        OrderDocument::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_reaches_a_later_status_step_by_step() {
        use OrderStatus::{Cancelled, Failed, Paid, PendingPayment, Queued, Refunded, Refunding};
        let mut steps = vec![Queued];
        while let Some(next) = steps.last().expect("a status").step_towards(Refunded) {
            steps.push(next);
        }
        assert_eq!(steps, [Queued, PendingPayment, Paid, Refunding, Refunded]);
        assert_eq!(Cancelled.step_towards(Refunded), Some(Refunding));
        assert_eq!(Refunding.step_towards(Paid), None);
        assert!(OrderStatus::ALL.into_iter().all(|status| !Failed.can_reach(status) && !status.can_reach(status)));
    }
}
