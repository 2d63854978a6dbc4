//! Response bodies of the app, with the fields that are used here.
//!
//! Unknown fields are ignored.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;

/// The states of an order, as in the HTTP contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Reserved, not yet in the ledger.
    Queued,
    /// In the ledger, unpaid.
    PendingPayment,
    /// Paid.
    Paid,
    /// Paid; a refund is in progress.
    Refunding,
    /// The refund is complete.
    Refunded,
    /// Cancelled by the buyer.
    Cancelled,
    /// Not paid in time.
    Expired,
    /// The ledger refused it, or it is among the dead letters.
    Failed,
    /// A status that the contract does not define.
    #[serde(other, rename = "unheard")]
    Unrecognised,
}

impl OrderStatus {
    /// Whether an order with this status is certainly live, that is, owns its units. A `refunding` order may not be: it
    /// may have been paid too late to get any.
    pub fn is_live(self) -> bool {
        self.is_held() || self == Self::Paid
    }

    /// Whether its units count as `held`.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Queued | Self::PendingPayment)
    }
}

impl fmt::Display for OrderStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued",
            Self::PendingPayment => "pending_payment",
            Self::Paid => "paid",
            Self::Refunding => "refunding",
            Self::Refunded => "refunded",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Unrecognised => "an unknown state",
        })
    }
}

/// `gate.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Gate {
    /// `scheduled`, `open`, `paused`, `ended`.
    pub phase: String,
    /// The server's clock, RFC 3339.
    #[serde(with = "rfc3339")]
    pub server_time: OffsetDateTime,
    /// Start of the activity.
    #[serde(with = "rfc3339")]
    pub starts_at: OffsetDateTime,
    /// The period over which a page spreads its start, in milliseconds.
    #[serde(default)]
    pub jitter_ms: u64,
    /// SKUs that are sold out for now.
    #[serde(default)]
    pub sold_out: Vec<String>,
    /// The secret that a reservation needs; only while open.
    #[serde(default)]
    pub start_key: Option<String>,
}

/// An order document, or the `202` of a reservation.
#[derive(Debug, Clone, Deserialize)]
pub struct Order {
    /// `<activity>.<ULID>`.
    pub order_no: String,
    /// Its status.
    pub status: OrderStatus,
    /// The reserved SKU.
    pub sku: String,
    /// Number of units.
    pub quantity: u32,
}

/// Response of the sandbox's sign-in.
#[derive(Debug, Deserialize)]
pub struct SignInResponse {
    /// A JWT.
    pub token: String,
}

/// Response of the ticket route.
#[derive(Debug, Deserialize)]
pub struct TicketResponse {
    /// The ticket.
    pub ticket: String,
}

/// Response of the checkout route.
#[derive(Debug, Deserialize)]
pub struct CheckoutResponse {
    /// URL of the payment page.
    pub checkout_url: String,
}

/// An RFC 9457 problem document.
#[derive(Debug, Deserialize)]
pub struct Problem {
    /// The stable code.
    pub code: Option<String>,
    /// A description of this occurrence.
    pub detail: Option<String>,
}

/// `GET …/stats`.
#[derive(Debug, Clone, Deserialize)]
pub struct Stats {
    /// Stock per SKU.
    pub skus: Vec<SkuStock>,
    /// Orders that are not in the ledger yet.
    pub queue: u64,
    /// Orders in the ledger, by status.
    pub orders: BTreeMap<String, u64>,
}

/// Stock of one SKU at one moment.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct SkuStock {
    /// The SKU.
    pub sku: String,
    /// Units in total.
    pub total: i64,
    /// Units that can be reserved.
    pub left: i64,
    /// Units that are reserved and unpaid.
    pub held: i64,
    /// Units that are paid.
    pub sold: i64,
}

/// `GET …/audit`.
#[derive(Debug, Clone, Deserialize)]
pub struct Audit {
    /// One entry per SKU.
    pub skus: Vec<SkuAudit>,
}

/// The app's own audit of one SKU.
#[derive(Debug, Clone, Deserialize)]
pub struct SkuAudit {
    /// Stock in Redis.
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
