//! Bodies of the HTTP contract, responses with the fields that are used here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::{OffsetDateTime, serde::rfc3339};

pub use domain::order::OrderStatus;

#[derive(Debug, Clone, Deserialize)]
pub struct Gate {
    /// `scheduled`, `open`, `paused`, `ended`.
    pub phase: String,
    #[serde(with = "rfc3339")]
    pub server_time: OffsetDateTime,
    #[serde(with = "rfc3339")]
    pub starts_at: OffsetDateTime,
    /// The period over which a page spreads its start, in milliseconds.
    #[serde(default)]
    pub jitter_ms: u64,
    #[serde(default)]
    pub sold_out: Vec<String>,
    /// The secret that a reservation needs; only while open.
    #[serde(default)]
    pub start_key: Option<String>,
}

/// An order document, or the `202` of a reservation.
#[derive(Debug, Clone, Deserialize)]
pub struct Order {
    pub order_no: String,
    pub status: OrderStatus,
    pub sku: String,
    pub quantity: u32,
    /// While it waits: how many wait ahead of it. The ledger, which may be behind, does not say.
    #[serde(default)]
    pub ahead: Option<u64>,
    /// Why it has its status.
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct TicketResponse {
    pub ticket: String,
}

/// `GET …/stats`.
#[derive(Debug, Clone, Deserialize)]
pub struct Stats {
    pub skus: Vec<SkuStock>,
    /// Orders that are not in the ledger yet.
    pub queue: u64,
    /// Orders in the ledger, by status.
    pub orders: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct SkuStock {
    pub sku: String,
    pub total: i64,
    /// Units that can be reserved.
    pub left: i64,
    /// Units that are reserved and unpaid.
    pub held: i64,
    /// Units that are paid.
    pub sold: i64,
    /// How many wait for a unit.
    #[serde(default)]
    pub waiting: i64,
    /// Of `left`, units that are to be offered to them.
    #[serde(default)]
    pub to_offer: i64,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
}

/// One of `GET …/dead-letters`.
#[derive(Debug, Deserialize)]
pub struct DeadLetter {
    pub order_no: String,
}

/// `GET …/audit`.
#[derive(Debug, Clone, Deserialize)]
pub struct Audit {
    pub skus: Vec<SkuAudit>,
}

/// The app's own audit of one SKU.
#[derive(Debug, Clone, Deserialize)]
pub struct SkuAudit {
    pub redis: SkuStock,
    /// Stock in the ledger, read at about the same time.
    pub ledger: Option<LedgerStock>,
    /// Difference between the two, in units.
    pub drift: i64,
}

/// Stock of one SKU in the ledger.
#[derive(Debug, Clone, Deserialize)]
pub struct LedgerStock {
    /// Units of live orders, as stored in the SKU's row.
    pub live: i64,
    /// Units of live orders, counted from the orders.
    pub counted: i64,
    /// The highest number of live units of one user.
    pub most_per_user: i64,
}

/// The body of a checkout.
pub fn checkout_body() -> Value {
    json!({"address": {"name": "Ada Lovelace", "line1": "12 St James's Square", "city": "London",
                       "postal_code": "SW1Y 4JH", "country": "GB"}})
}
