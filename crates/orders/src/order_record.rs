//! Options of the scripts that write order records (`crates/stores/lua/order.lua`).

use domain::{
    ids::{SkuId, UserId},
    money::Money,
    order::{Order, OrderStatus},
};
use serde::Serialize;

use crate::{ledger::order_changes::NewOrder, sync::OrderState};

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

/// A state that the ledger gave an order.
#[derive(Serialize)]
pub struct StateFields<'a> {
    status: OrderStatus,
    live: bool,
    pay_by: i64,
    paid_at: i64,
    reason: &'a str,
}

impl<'a> From<&'a OrderState> for StateFields<'a> {
    fn from(state: &'a OrderState) -> Self {
        let OrderState { status, live, pay_by, paid_at, reason, .. } = state;
        Self { status: *status, live: *live, pay_by: pay_by.0, paid_at: paid_at.0, reason }
    }
}
