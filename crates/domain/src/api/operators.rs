//! What operators send and see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    activity::MAX_TOTAL,
    http::problem::FieldError,
    ids::{ActivityId, OrderNo, UserId},
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

impl Restock {
    /// Returns one error for each violated rule; empty if the change is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let is_valid = self.by != 0 && (-MAX_TOTAL..=MAX_TOTAL).contains(&self.by);
        if is_valid { Vec::new() } else { vec![FieldError::new("/by", "must be -10^9 to 10^9, and not 0")] }
    }
}

/// Codes that were added.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CodesAdded {
    /// How many are new.
    pub added: usize,
    /// How many the activity has.
    pub codes: i64,
}

/// Why an operator changes an order. It is kept with the change.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CancelOrder {
    /// Why, for operators.
    #[schemars(length(min = 1, max = MAX_REASON_CHARS), regex(pattern = REASON_PATTERN))]
    pub reason: String,
}

impl CancelOrder {
    /// Returns one error for each violated rule; empty if the change is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        reason_error(&self.reason).into_iter().collect()
    }
}

/// What to give back of an order.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RefundOrder {
    /// How much, in minor units; without it, all that is left.
    #[schemars(range(min = 1))]
    pub amount: Option<i64>,
    /// Why, for operators.
    #[schemars(length(min = 1, max = MAX_REASON_CHARS), regex(pattern = REASON_PATTERN))]
    pub reason: String,
}

impl RefundOrder {
    /// Returns one error for each violated rule; empty if the change is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let wrong = || FieldError::new("/amount", "must be 1 or more");
        let amount = self.amount.is_some_and(|amount| amount < 1).then(wrong);
        amount.into_iter().chain(reason_error(&self.reason)).collect()
    }
}

/// More time to pay an order.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ExtendOrder {
    /// How much, beyond the deadline that the order has.
    #[schemars(range(min = 1, max = 86_400))]
    pub seconds: i64,
    /// Why, for operators.
    #[schemars(length(min = 1, max = MAX_REASON_CHARS), regex(pattern = REASON_PATTERN))]
    pub reason: Option<String>,
}

impl ExtendOrder {
    /// Returns one error for each violated rule; empty if the change is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let wrong = || FieldError::new("/seconds", "must be 1 to 86,400");
        let seconds = (!(1..=86_400).contains(&self.seconds)).then(wrong);
        seconds.into_iter().chain(self.reason.as_deref().and_then(reason_error)).collect()
    }
}

/// Maximum length of the reason of a change of an order, in characters.
const MAX_REASON_CHARS: usize = 500;

/// A reason has a visible character, and no NUL, which PostgreSQL's text cannot contain.
const REASON_PATTERN: &str = r"^[^\u0000]*[^\s\u0000][^\u0000]*$";

fn reason_error(reason: &str) -> Option<FieldError> {
    let is_valid = !reason.trim().is_empty() && reason.chars().count() <= MAX_REASON_CHARS && !reason.contains('\0');
    (!is_valid).then(|| FieldError::new("/reason", "must be a text of 1 to 500 characters without NUL"))
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

impl Ban {
    /// Returns one error for each violated rule; empty if the ban is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let seconds = (1..=315_360_000).contains(&self.seconds);
        // PostgreSQL's text cannot contain NUL.
        let reason = !self.reason.contains('\0');
        [(seconds, "/seconds", "must be 1 to 315,360,000"), (reason, "/reason", "must be text without NUL")]
            .into_iter()
            .filter(|(is_valid, ..)| !is_valid)
            .map(|(_, pointer, detail)| FieldError::new(pointer, detail))
            .collect()
    }
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

/// A presale code that a user has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct UsedCode {
    /// The activity.
    pub activity: ActivityId,
    /// The code.
    pub code: String,
}

/// What was erased about a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ErasedData")]
pub struct Erased {
    /// Delivery addresses.
    #[schemars(with = "i64", range(min = 0))]
    pub addresses: usize,
    /// Presale codes that the user had, in sales that ended.
    #[schemars(with = "i64", range(min = 0))]
    pub codes: usize,
    /// 1 if the user had strikes.
    #[schemars(with = "i64", range(min = 0))]
    pub strikes: usize,
}

/// Whether load is shed: only paying, cancelling and polling are served.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
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
    /// `queued`, or `waiting` if its buyer waits in the line again.
    #[schemars(with = "str", extend("enum" = ["queued", "waiting"]))]
    pub status: OrderStatus,
}

/// A dead letter that no operator needs to look at any more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DismissedLetter {
    /// The order's number; `<activity>.<stream id>` for a message that cannot be parsed.
    pub order_no: String,
}

/// Which events to send again: exactly one member.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(inline, extend("minProperties" = 1, "maxProperties" = 1))]
pub struct ReplayEvents {
    /// All events of this order.
    #[serde(default)]
    #[schemars(with = "OrderNo")]
    pub order_no: Option<OrderNo>,
    /// True for all events that failed.
    #[serde(default)]
    pub failed: bool,
}

impl ReplayEvents {
    /// Returns an error unless exactly one member selects events.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let rule = "must name an order_no, or all that failed with {\"failed\": true}";
        if self.order_no.is_some() == self.failed { vec![FieldError::new("", rule)] } else { Vec::new() }
    }
}

/// The body of a route that takes none: nothing, or an object without members.
#[derive(Debug, Clone, Deserialize)]
pub struct NoBody {}

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
