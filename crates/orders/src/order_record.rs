//! Options of the scripts that write order records (`crates/stores/lua/order.lua`).

use domain::{
    ids::{OrderNo, SkuId, UserId},
    money::Money,
    order::{Order, OrderStatus},
    time::Millis,
};
use sale::reserve::Position;
use serde::{Serialize, Serializer};

use crate::ledger::line_entries::Entry;

/// What stays the same in an order's life.
#[derive(Serialize)]
pub struct OrderFields<'a> {
    user: &'a UserId,
    sku: &'a SkuId,
    quantity: i64,
    #[serde(flatten)]
    money: &'a Money,
    created_at: i64,
}

impl<'a> From<&'a Order> for OrderFields<'a> {
    fn from(order: &'a Order) -> Self {
        let Order { user, sku, quantity, money, created_at, .. } = order;
        Self { user, sku, quantity: *quantity, money, created_at: created_at.0 }
    }
}

impl<'a> From<&'a NewOrder> for OrderFields<'a> {
    fn from(order: &'a NewOrder) -> Self {
        let NewOrder { user, sku, quantity, money, created_at, .. } = order;
        Self { user, sku, quantity: *quantity, money, created_at: created_at.0 }
    }
}

/// An order message from the stream, ready to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// Its number.
    pub order_no: OrderNo,
    /// The buyer.
    pub user: UserId,
    /// The SKU.
    pub sku: SkuId,
    /// Units.
    pub quantity: i64,
    /// The total price.
    pub money: Money,
    /// When it was reserved.
    pub created_at: Millis,
    /// The epoch of the gate that accepted it.
    pub epoch: i64,
    /// Its number among the orders of that epoch; 0 if unknown.
    pub sequence: i64,
    /// What an order of a unit that was offered to the line has besides.
    pub offer: Option<Offer>,
}

/// An offer to the line (H1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The place that its buyer had.
    pub place: Position,
    /// The time to pay, in milliseconds.
    pub pay_ms: i64,
}

impl NewOrder {
    /// Its entry in the line, if it was offered: `ended` says why that ends, and is empty otherwise.
    pub fn entry(&self, ended: &str) -> Option<Entry> {
        let Self { order_no, user, sku, money, created_at, offer, .. } = self.clone();
        let place = offer?.place;
        Some(Entry { order_no, user, sku, money, created_at, place, ended: ended.to_owned(), again: false })
    }

    /// Its position in the sale.
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch, sequence: self.sequence }
    }
}

/// A change of an order's status that Redis is to apply: read from the order's row, or `failed` for an order that the
/// ledger refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The order's number.
    pub order_no: OrderNo,
    /// The order's state after the change.
    pub state: OrderState,
    /// Id of the stream message to acknowledge together with it; empty for none.
    pub stream_id: String,
}

/// State of an order after a [`Transition`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrderState {
    /// The epoch that the state belongs to; Redis ignores it in any other.
    #[serde(skip)]
    pub epoch: i64,
    /// The order's status.
    pub status: OrderStatus,
    /// Whether the order holds units.
    pub live: bool,
    /// Payment deadline.
    #[serde(serialize_with = "as_number")]
    pub pay_by: Millis,
    /// Time of payment; 0 if not paid.
    #[serde(serialize_with = "as_number")]
    pub paid_at: Millis,
    /// Machine-readable reason of the status; may be empty.
    pub reason: String,
    /// What is given back of a payment whose rest stays paid.
    pub refunded: i64,
}

impl OrderState {
    /// The state of an order that the ledger refused.
    pub fn failed(epoch: i64, reason: &str) -> Self {
        let (status, pay_by, paid_at) = (OrderStatus::Failed, Millis(0), Millis(0));
        Self { epoch, status, live: false, pay_by, paid_at, reason: reason.to_owned(), refunded: 0 }
    }
}

fn as_number<S: Serializer>(time: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.0)
}
