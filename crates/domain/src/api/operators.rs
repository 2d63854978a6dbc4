//! What operators send and see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{OrderNo, UserId},
    order::OrderStatus,
    time::Millis,
};

/// A change of a SKU's total.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Restock {
    /// Units to add, or, below 0, unsold units to take away; not 0.
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000), extend("not" = { "const": 0 }))]
    pub by: i64,
    /// The total that the operator saw. If it differs from the SKU's, nothing changes (`state_conflict`), so a repeated
    /// request adds the units once.
    #[schemars(range(min = 0))]
    pub from: Option<i64>,
}

/// A ban.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Ban {
    /// How long.
    #[schemars(range(min = 1, max = 315_360_000))]
    pub seconds: i64,
    /// Why, for operators.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[^\u0000]*$"))]
    pub reason: String,
}

crate::words! {
    /// Whom a ban is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub enum BanKind {
        /// A user.
        User = "user",
        /// An address.
        Ip = "ip",
    }
}

/// A ban in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedBan {
    /// Whom it is for.
    pub kind: BanKind,
    /// The user, or the address (IPv6: its /64 network).
    pub name: String,
    /// Until when.
    pub until: Millis,
    /// Why, for operators.
    pub reason: String,
}

/// A ban that is in force.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Banned {
    /// Until when.
    pub until: Millis,
    /// Why, for operators.
    pub reason: String,
}

/// Strikes of a user: orders that expired unpaid or were cancelled late.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Strikes {
    /// The user.
    pub user: UserId,
    /// How many.
    #[schemars(range(min = 0))]
    pub count: i64,
    /// When the last one was counted; null for never.
    pub last_at: Option<Millis>,
    /// With as many, a user gets no ticket until 30 days after the last one.
    #[schemars(range(min = 1))]
    pub limit: i64,
}

/// Whether load is shed: only paying, cancelling and polling are served.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Shedding {
    /// Whether it is.
    pub on: bool,
}

/// The result of turning load shedding on or off.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SheddingChanged {
    /// Whether load is shed.
    pub on: bool,
    /// Number of gates that were changed.
    #[schemars(with = "i64", range(min = 0))]
    pub activities: usize,
}

/// A dead letter that was put back into the queue.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Requeued {
    /// The order.
    pub order_no: OrderNo,
    /// Always `queued`.
    #[schemars(with = "str", extend("const" = "queued"))]
    pub status: OrderStatus,
}

/// Which events to send again.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ReplayEvents {
    /// Only the events of this order; without it, all failed ones.
    pub order_no: Option<OrderNo>,
}

/// The events that are due again.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct EventsReplayed {
    /// How many.
    #[schemars(with = "i64", range(min = 0))]
    pub replayed: usize,
    /// True if some were left when the time was up: call again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}
