//! What the app answers, as far as a buyer or an operator needs it; unknown fields are ignored.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;

/// The states of an order, in the contract's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Reserved, not yet in the ledger.
    Queued,
    /// In the ledger, waiting for money.
    PendingPayment,
    /// Sold.
    Paid,
    /// Paid, money on its way back.
    Refunding,
    /// Paid back.
    Refunded,
    /// Given up by the buyer.
    Cancelled,
    /// Not paid in time.
    Expired,
    /// Could not be written; it is among the dead letters or was refused by the ledger.
    Failed,
    /// A word that the contract does not know.
    #[serde(other, rename = "unheard")]
    Unrecognised,
}

impl OrderStatus {
    /// Whether the order certainly owns its units. One that is `refunding` may, or it was paid too late to get any.
    pub fn owns_units(self) -> bool {
        self.is_held() || self == Self::Paid
    }

    /// Whether the units count as `held`.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Queued | Self::PendingPayment)
    }

    /// Whether nothing will change any more by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Paid | Self::Refunded | Self::Cancelled | Self::Expired | Self::Failed)
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
    /// When the sale opens.
    #[serde(with = "rfc3339")]
    pub starts_at: OffsetDateTime,
    /// How far a page spreads its start.
    #[serde(default)]
    pub jitter_ms: u64,
    /// SKUs that need no try now.
    #[serde(default)]
    pub sold_out: Vec<String>,
    /// The secret of the start, only while open.
    #[serde(default)]
    pub start_key: Option<String>,
}

/// An order document, or the `202` of a reservation.
#[derive(Debug, Clone, Deserialize)]
pub struct Order {
    /// `<activity>.<ULID>`.
    pub order_no: String,
    /// Where it stands.
    pub status: OrderStatus,
    /// What was reserved.
    pub sku: String,
    /// How many units.
    pub quantity: u32,
    /// Until when it must be paid.
    #[serde(default, with = "rfc3339::option")]
    pub pay_by: Option<OffsetDateTime>,
    /// Why it failed.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Answer of the sandbox's sign-in.
#[derive(Debug, Deserialize)]
pub struct SignInResponse {
    /// A JWT.
    pub token: String,
}

/// Answer of the ticket route.
#[derive(Debug, Deserialize)]
pub struct TicketResponse {
    /// The ticket.
    pub ticket: String,
}

/// Answer of the checkout route.
#[derive(Debug, Deserialize)]
pub struct CheckoutResponse {
    /// Where the buyer pays.
    pub checkout_url: String,
}

/// An RFC 9457 problem.
#[derive(Debug, Deserialize)]
pub struct Problem {
    /// The stable code.
    pub code: Option<String>,
    /// What happened this time.
    pub detail: Option<String>,
}

/// `GET …/stats`.
#[derive(Debug, Clone, Deserialize)]
pub struct Stats {
    /// Live stock.
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
    /// Units of the whole sale.
    pub total: i64,
    /// Free units.
    pub left: i64,
    /// Reserved, unpaid.
    pub held: i64,
    /// Paid.
    pub sold: i64,
}

/// `GET …/audit`.
#[derive(Debug, Clone, Deserialize)]
pub struct Audit {
    /// SKU by SKU.
    pub skus: Vec<SkuAudit>,
}

/// What the app's own audit says of a SKU.
#[derive(Debug, Clone, Deserialize)]
pub struct SkuAudit {
    /// Redis at one moment.
    pub redis: SkuStock,
    /// The ledger about then.
    pub ledger: Option<LedgerStock>,
    /// Units by which they differ.
    pub drift: i64,
}

/// A SKU in the ledger.
#[derive(Debug, Clone, Deserialize)]
pub struct LedgerStock {
    /// Units of live orders as the SKU's row keeps them.
    pub live: i64,
    /// The same, counted.
    pub counted: i64,
    /// The most units of one user.
    pub most_per_user: i64,
}
