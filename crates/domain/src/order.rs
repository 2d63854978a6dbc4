//! An order: its states, the moves between them, and its document.

use serde::{Serialize, Serializer};

use crate::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    time::Millis,
};

/// Where an order stands (design: the only moves are those of [`Status::may_become`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Decided by Redis, not yet in the ledger.
    Queued,
    /// In the ledger, waiting for money.
    PendingPayment,
    /// Paid for.
    Paid,
    /// Called off by the buyer.
    Cancelled,
    /// Not paid in time.
    Expired,
    /// Could not be written; the reason says why.
    Failed,
    /// Money is on its way back.
    Refunding,
    /// Money is back.
    Refunded,
}

impl OrderStatus {
    /// All of them, in the order of the life of an order.
    pub const ALL: [OrderStatus; 8] = [
        OrderStatus::Queued,
        OrderStatus::PendingPayment,
        OrderStatus::Paid,
        OrderStatus::Cancelled,
        OrderStatus::Expired,
        OrderStatus::Failed,
        OrderStatus::Refunding,
        OrderStatus::Refunded,
    ];

    /// The word in Redis, in the ledger and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OrderStatus::Queued => "queued",
            OrderStatus::PendingPayment => "pending_payment",
            OrderStatus::Paid => "paid",
            OrderStatus::Cancelled => "cancelled",
            OrderStatus::Expired => "expired",
            OrderStatus::Failed => "failed",
            OrderStatus::Refunding => "refunding",
            OrderStatus::Refunded => "refunded",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<OrderStatus> {
        OrderStatus::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether `next` is a legal next state.
    #[must_use]
    pub fn can_become(self, next: OrderStatus) -> bool {
        use OrderStatus::{Cancelled, Expired, Failed, Paid, PendingPayment, Queued, Refunded, Refunding};
        matches!(
            (self, next),
            (Queued, PendingPayment | Failed)
                | (PendingPayment, Paid | Cancelled | Expired)
                | (Cancelled | Expired, Paid | Refunding)
                | (Paid, Refunding)
                | (Refunding, Refunded)
        )
    }

    /// Whether nothing more will happen to the order by itself.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, OrderStatus::Cancelled | OrderStatus::Expired | OrderStatus::Failed | OrderStatus::Refunded)
    }
}

/// Everything that is known of an order, from whichever store answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub order_no: OrderNo,
    /// Whose it is.
    pub user: UserId,
    /// Where it stands.
    pub status: OrderStatus,
    /// What was bought.
    pub sku: SkuId,
    /// How many units.
    pub quantity: i64,
    /// The whole price.
    pub money: Money,
    /// When it was reserved.
    pub created_at: Millis,
    /// Until when it can be paid.
    pub pay_by: Option<Millis>,
    /// When it was paid.
    pub paid_at: Option<Millis>,
    /// Why it ended as it did.
    pub reason: Option<String>,
    /// Where to pay, once a payment was started.
    pub checkout_url: Option<String>,
    /// While queued: orders ahead of it.
    pub ahead: i64,
    /// While queued: estimated wait, in milliseconds.
    pub estimated_wait_ms: i64,
}

#[derive(Serialize)]
struct OrderDocument<'a> {
    order_no: &'a OrderNo,
    status: OrderStatus,
    sku: &'a SkuId,
    quantity: i64,
    #[serde(flatten)]
    money: &'a Money,
    ahead: i64,
    estimated_wait_ms: i64,
    created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pay_by: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkout_url: Option<&'a str>,
}

impl Order {
    /// The sale that it belongs to.
    #[must_use]
    pub fn activity(&self) -> &ActivityId {
        self.order_no.activity()
    }

    /// The order as somebody sees it at `now`: an unpaid one is expired the moment its time is up (E3).
    #[must_use]
    pub fn effective_at(mut self, now: Millis) -> Self {
        if self.status == OrderStatus::PendingPayment && self.pay_by.is_some_and(|pay_by| pay_by <= now) {
            self.status = OrderStatus::Expired;
            self.reason = Some("not_paid_in_time".to_owned());
        }
        self
    }
}

/// As clients see it: what does not apply is left out.
impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pending = self.status == OrderStatus::PendingPayment;
        let document = OrderDocument {
            order_no: &self.order_no,
            status: self.status,
            sku: &self.sku,
            quantity: self.quantity,
            money: &self.money,
            ahead: self.ahead,
            estimated_wait_ms: self.estimated_wait_ms,
            created_at: self.created_at,
            pay_by: self.pay_by.filter(|_| pending),
            paid_at: self.paid_at,
            reason: self.reason.as_deref().filter(|reason| !reason.is_empty()),
            checkout_url: self.checkout_url.as_deref().filter(|url| pending && !url.is_empty()),
        };
        document.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_round_trips() {
        for status in OrderStatus::ALL {
            assert_eq!(OrderStatus::parse(status.as_str()), Some(status));
        }
        assert_eq!(OrderStatus::parse("lost"), None);
    }

    #[test]
    fn a_paid_order_is_neither_cancelled_nor_expired() {
        assert!(!OrderStatus::Paid.can_become(OrderStatus::Cancelled));
        assert!(!OrderStatus::Paid.can_become(OrderStatus::Expired));
        assert!(!OrderStatus::Refunded.can_become(OrderStatus::Paid));
        assert!(OrderStatus::Expired.can_become(OrderStatus::Paid));
    }

    #[test]
    fn no_status_becomes_queued() {
        assert!(OrderStatus::ALL.into_iter().all(|status| !status.can_become(OrderStatus::Queued)));
    }
}
