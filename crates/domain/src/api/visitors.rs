//! What visitors see of activities.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    activity::{Checkout, HumanCheck, LineMode, MAX_PRICE, MAX_REFUND_WINDOW_SECONDS, Phase},
    ids::{ActivityId, SkuId},
    language::Translations,
    money::Currency,
    time::Millis,
};

/// What every document of a published activity has.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ActivitySummary<'a> {
    /// The id.
    pub id: &'a ActivityId,
    /// The title.
    pub title: &'a str,
    /// The title in other languages, by language tag; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub titles: &'a Translations,
    /// URL of a picture; may be empty.
    pub image: &'a str,
    /// The phase.
    pub phase: Phase,
    /// When reservations open.
    pub starts_at: Millis,
    /// When reservations end.
    pub ends_at: Millis,
    /// The server's clock.
    pub server_time: Millis,
}

/// A published activity in the list, with its price and what is left.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ListedActivity<'a> {
    /// Id, title, picture (without one of its own, the first of its SKUs), phase and times.
    #[serde(flatten)]
    pub summary: ActivitySummary<'a>,
    /// The lowest price of its SKUs, in minor units.
    #[schemars(range(min = 0, max = MAX_PRICE))]
    pub price: i64,
    /// Currency of the price.
    #[schemars(with = "Currency")]
    pub currency: &'a str,
    /// Whether it is open and no SKU has units left.
    pub sold_out: bool,
    /// Units left of its SKUs, up to five seconds ago; only while it is open, none of them is unlimited, and Redis answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub left: Option<i64>,
    /// Units on sale, with `left`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub total: Option<i64>,
}

/// A published activity: its rules, and the stock left.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Activity")]
pub struct ActivityDocument<'a> {
    /// Id, title, picture, phase and times.
    #[serde(flatten)]
    pub summary: ActivitySummary<'a>,
    /// The version of the rules, texts and SKUs, as in the gate.
    #[schemars(range(min = 1))]
    pub version: i64,
    /// A paragraph of text.
    pub description: &'a str,
    /// The description in other languages, by language tag; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub descriptions: &'a Translations,
    /// Maximum live units of one SKU per user.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_user: i64,
    /// Seconds that a buyer has to pay before the order expires.
    #[schemars(range(min = 1, max = 86_400))]
    pub pay_timeout_seconds: i64,
    /// Seconds by which starting a payment extends the hold, once.
    #[schemars(range(min = 0, max = 86_400))]
    pub pay_extension_seconds: i64,
    /// Seconds after the payment in which the buyer may request a refund; 0 is never, and absent is without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REFUND_WINDOW_SECONDS))]
    pub refund_window_seconds: Option<i64>,
    /// The human check.
    pub human_check: HumanCheck,
    /// What a checkout asks of the buyer besides the payment.
    pub checkout: Checkout,
    /// Maximum predicted wait in the queue, in seconds. Above it, reservations are refused.
    #[schemars(range(min = 1, max = 86_400))]
    pub max_wait_seconds: i64,
    /// The line for units that come back; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PublicLine")]
    pub line: Option<PublicLine>,
    /// Conditions that a user must meet.
    pub eligibility: PublicEligibility,
    /// The SKUs.
    #[schemars(length(min = 1, max = 50))]
    pub skus: Vec<SkuStock<'a>>,
}

/// The line of an activity: who comes when nothing is left may wait for one unit, and gets what comes back in that order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PublicLine {
    /// Its kind.
    pub mode: LineMode,
    /// Seconds that a buyer has to pay a unit that was offered.
    #[schemars(range(min = 1, max = 86_400))]
    pub offer_seconds: i64,
}

/// The public part of an activity's conditions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PublicEligibility {
    /// Only tokens with `member: true`.
    pub members_only: bool,
    /// The minimum `level` of a token.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub min_level: i64,
    /// Only users on a list or of a group, which are not shown: a list contains user ids.
    pub invited_only: bool,
    /// Only users with a presale code, beside those who are invited.
    pub codes: bool,
}

/// A SKU with its stock.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SkuStock<'a> {
    /// The SKU's id.
    pub sku: &'a SkuId,
    /// The product's name.
    pub name: &'a str,
    /// The name in other languages, by language tag; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub names: &'a Translations,
    /// The item of which this SKU is an option, such as a size; absent if it is an item of its own.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub item: &'a str,
    /// The item in other languages, by language tag; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub items: &'a Translations,
    /// URL of a picture; may be empty.
    pub image: &'a str,
    /// Price of a unit, in minor units.
    #[schemars(range(min = 0, max = MAX_PRICE))]
    pub price: i64,
    /// Currency of the price.
    #[schemars(with = "Currency")]
    pub currency: &'a str,
    /// Units on sale; -1 is unlimited.
    #[schemars(range(min = -1))]
    pub total: i64,
    /// Units left at `as_of`; -1 is unlimited, null is not known.
    #[schemars(range(min = -1))]
    pub left: Option<i64>,
    /// How many wait for a unit; absent without a line. While anybody waits, `left` is 0 for everybody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub waiting: Option<i64>,
    /// Redis's time when `left` was read; null if Redis is not available.
    pub as_of: Option<Millis>,
}
