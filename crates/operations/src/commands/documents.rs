//! The response bodies for operators that combine what the ledger and Redis have.

use std::collections::BTreeMap;

use domain::{
    address::Address,
    api::{
        Page,
        operators::{Banned, Strikes, UsedCode},
    },
    ids::UserId,
    order::{Order, OrderStatus},
    time::Millis,
    webhook::Dispute,
};
use orders::ledger::{
    events::{EventEndpoint, EventRecord},
    line_entries::Offers,
    order_rows::OrderRow,
};
use payments::ledger::{books::BookEntry, callback_outcomes::CallbackEffect, callback_rows::Callback, refunds::Refund};
use sale::ledger::activities::Activity;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    stats::{ActivityStats, counts_by},
    timeline::TimelineEntry,
};
use crate::{
    ledger::sales::SaleFigures,
    upkeep::{rebuild::Progress, report::Report},
};

/// A changed activity whose gate is being rebuilt. Until that is done, nothing is sold.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RebuildingActivity<'a> {
    /// The activity.
    #[serde(flatten)]
    pub activity: &'a Activity,
    /// How far the rebuild is.
    pub rebuild: RunningRebuild,
}

/// A rebuild that is done.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rebuilt {
    /// Always `done`.
    #[schemars(extend("const" = "done"))]
    pub outcome: &'static str,
    /// Orders restored.
    #[schemars(range(min = 0))]
    pub orders: i64,
    /// The epoch that started.
    #[schemars(range(min = 1))]
    pub epoch: i64,
}

/// A rebuild that is not done.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunningRebuild {
    /// Always `running`.
    #[schemars(extend("const" = "running"))]
    pub outcome: &'static str,
    /// How far it is.
    #[serde(flatten)]
    pub progress: Progress,
}

impl From<Progress> for RunningRebuild {
    fn from(progress: Progress) -> Self {
        Self { outcome: "running", progress }
    }
}

/// An activity in a list, with what it has sold.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ListedActivityForOperators")]
pub struct ListedSale {
    /// The activity.
    #[serde(flatten)]
    pub activity: Activity,
    /// What it has sold.
    #[serde(flatten)]
    pub figures: SaleFigures,
}

/// The counters of an activity in Redis at one instant, and its orders in the ledger.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Stats {
    /// Redis.
    #[serde(flatten)]
    pub redis: ActivityStats,
    /// The ledger.
    #[serde(flatten)]
    pub figures: SaleFigures,
    /// Number of orders in the ledger by status.
    #[schemars(transform = counts_by::<OrderStatus>)]
    pub orders: BTreeMap<String, i64>,
    /// What was offered to the line so far.
    pub offers: Offers,
}

/// An order with its buyer and payment.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExportedOrder<'a> {
    /// The order.
    #[serde(flatten)]
    pub order: &'a Order,
    /// The buyer.
    pub user: &'a UserId,
    /// The provider's id of the payment; null before it is paid.
    pub payment: Option<&'a str>,
    /// When the order last changed.
    pub updated_at: Millis,
}

impl<'a> From<&'a OrderRow> for ExportedOrder<'a> {
    fn from(row: &'a OrderRow) -> Self {
        let payment = Some(row.payment.as_str()).filter(|payment| !payment.is_empty());
        Self { order: &row.order, user: &row.order.user, payment, updated_at: row.updated_at }
    }
}

/// An order that was searched.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundOrder<'a> {
    /// The order.
    #[serde(flatten)]
    pub order: ExportedOrder<'a>,
    /// If it was asked for: the delivery address in clear text; null if there is none, if it was erased, or if its key is
    /// gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Address>")]
    pub address: Option<Option<Address>>,
}

/// What the ledger keeps about a user.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PersonData<'a> {
    /// The strikes.
    pub strikes: Strikes,
    /// The ban by an operator; null if there is none.
    pub ban: Option<Banned>,
    /// The presale codes.
    pub codes: Vec<UsedCode>,
    /// Where they waited in a line and got no order, newest first; 200 at most.
    pub line: Vec<Order>,
    /// Payments, refunds and disputes of the orders of this page.
    pub books: Vec<BookEntry>,
    /// The orders with their addresses, newest first.
    #[serde(flatten)]
    pub page: Page<FoundOrder<'a>>,
}

/// All that the ledger has about an order; for an operator with the role `fulfil` alone, its lists are empty.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrderDetails<'a> {
    /// The order.
    #[serde(flatten)]
    pub order: ExportedOrder<'a>,
    /// How much of the payment was given back.
    #[schemars(range(min = 0))]
    pub refunded_amount: i64,
    /// How much of it an operator can give back.
    #[schemars(range(min = 0))]
    pub refundable_amount: i64,
    /// What happened when, oldest first.
    pub timeline: Vec<TimelineEntry>,
    /// The delivery address in clear text; null if there is none, if it was erased, or if its key is gone. Reading it is
    /// logged.
    pub address: Option<Address>,
    /// Payment callbacks for the order.
    pub callbacks: Vec<Callback>,
    /// Its refunds.
    pub refunds: Vec<Refund>,
    /// Disputes of its payments, oldest first.
    pub disputes: Vec<Dispute>,
    /// Its events.
    pub events: Vec<EventRecord>,
}

/// A parked callback that an operator resolved.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ResolvedCallback {
    /// The callback.
    pub id: String,
    /// What it did.
    pub outcome: CallbackEffect,
}

/// The delivery of events to the shop.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Events {
    /// The endpoint's state.
    pub endpoint: EventEndpoint,
    /// Number of events that wait for delivery.
    #[schemars(range(min = 0))]
    pub waiting: i64,
    /// Those that were asked for, newest first.
    #[serde(flatten)]
    pub page: Page<EventRecord>,
}

/// A sweep that ran.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SweepReport")]
pub struct Swept<'a> {
    /// Always true.
    #[schemars(extend("const" = true))]
    pub swept: bool,
    /// What it did.
    #[serde(flatten)]
    pub report: &'a Report,
    /// How long it took, in milliseconds.
    #[schemars(range(min = 0))]
    pub duration_ms: i64,
}

/// A sweep that did not run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotSwept {
    /// Always false.
    #[schemars(extend("const" = false))]
    pub swept: bool,
    /// Why.
    pub because: &'static str,
}
