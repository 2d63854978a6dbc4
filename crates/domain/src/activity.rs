//! The spec of an activity, and its validation rules.

mod announcement;
mod lifecycle;
mod limits;
mod line;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    announcement::Announcement,
    lifecycle::{ActivityState, Phase},
    limits::{Limit, Limits},
    line::{Line, LineMode, MAX_LINE_UNITS},
};
use crate::{
    http::{body, problem::FieldError},
    human_check::MAX_DIFFICULTY,
    ids::{SkuId, UserId},
    language::Translations,
    money::{Currency, decimals},
    time::Millis,
};

/// Maximum number of units of a SKU.
pub const MAX_TOTAL: i64 = 1_000_000_000;

/// Maximum price of a unit, in minor units.
pub const MAX_PRICE: i64 = 1_000_000_000_000;

const MAX_LANGUAGES: usize = 20;

/// Maximum amount of an order, in minor units: the largest integer that Lua and JavaScript represent exactly.
const MAX_AMOUNT: i64 = (1 << 53) - 1;

/// A text without control characters, as a regular expression.
const PLAIN_TEXT: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// A text without control characters but line breaks and tabs, as a regular expression.
const PLAIN_LINES: &str = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$";

/// The human check that must be solved before a ticket is issued (B5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HumanCheck {
    /// No check.
    #[default]
    None,
    /// A proof of work.
    Pow,
    /// A picture puzzle.
    Captcha,
    /// A check of the service that the `siteverify_…` variables name, such as Turnstile or hCaptcha.
    Hosted,
    /// A proof of work, only for visitors whose suspicion score reaches the threshold.
    Suspicious,
}

impl HumanCheck {
    /// The check of a visitor who wants to work instead, since a picture is nothing for everybody: the proof of work of
    /// suspicious visitors. A hosted check has other ways of its own.
    #[must_use]
    pub fn as_work(self) -> Self {
        match self {
            Self::Captcha => Self::Suspicious,
            other => other,
        }
    }
}

/// What a checkout asks of the buyer besides the payment (E1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Checkout {
    /// Nothing: a ticket needs no delivery.
    None,
    /// A delivery address, in the page's form.
    #[default]
    Form,
    /// A delivery address, on Stripe's payment page.
    Provider,
}

/// Conditions that a user must meet to get a ticket (B7).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Eligibility {
    /// Only members.
    #[serde(default)]
    pub members_only: bool,
    /// The minimum level.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub min_level: i64,
    /// Only these users and those of `groups`, unless both are empty.
    #[serde(default)]
    pub allow: Vec<UserId>,
    /// Only users whose token names one of these groups, and those in `allow`, unless both are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 200), regex(pattern = PLAIN_TEXT)))]
    pub groups: Vec<String>,
    /// Only users with a presale code, and those in `allow` and `groups`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub codes: bool,
}

/// A condition that a user does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Requirement {
    /// Only members.
    Members,
    /// A higher level.
    Level,
    /// Only users on a list, or of a group if there are groups.
    List,
    /// Only users of a group.
    Groups,
    /// A presale code.
    Code,
}

/// A SKU of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Sku {
    /// The SKU's id.
    pub sku: SkuId,
    /// The product's name, shown to visitors.
    #[schemars(length(min = 1, max = 200), regex(pattern = PLAIN_TEXT))]
    pub name: String,
    /// The name in other languages, by language tag (`zh`, `pt-BR`).
    #[serde(default, skip_serializing_if = "Translations::is_empty")]
    #[schemars(with = "BTreeMap<String, String>", extend("maxProperties" = MAX_LANGUAGES))]
    pub names: Translations,
    /// The item of which this SKU is an option, such as a size: SKUs with the same item are shown together, and `name`
    /// names the option. Empty or absent: the SKU is an item of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 200), regex(pattern = PLAIN_TEXT))]
    pub item: String,
    /// The item in other languages, by language tag.
    #[serde(default, skip_serializing_if = "Translations::is_empty")]
    #[schemars(with = "BTreeMap<String, String>", extend("maxProperties" = MAX_LANGUAGES))]
    pub items: Translations,
    /// URL of a picture; may be empty.
    #[serde(default)]
    #[schemars(length(max = 2_000), regex(pattern = PLAIN_TEXT))]
    pub image: String,
    /// Price of a unit, in minor units; 0 is free.
    #[schemars(range(min = 0, max = MAX_PRICE))]
    pub price: i64,
    /// ISO 4217 code.
    #[schemars(with = "Currency")]
    pub currency: String,
    /// Units on sale; -1 is unlimited.
    #[schemars(range(min = -1, max = MAX_TOTAL))]
    pub total: i64,
}

/// The spec of an activity: the body with which an operator creates or changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivitySpec {
    /// The title.
    #[schemars(length(min = 1, max = 200), regex(pattern = PLAIN_TEXT))]
    pub title: String,
    /// The title in other languages, by language tag (`zh`, `pt-BR`).
    #[serde(default, skip_serializing_if = "Translations::is_empty")]
    #[schemars(with = "BTreeMap<String, String>", extend("maxProperties" = MAX_LANGUAGES))]
    pub titles: Translations,
    /// A paragraph of text.
    #[serde(default)]
    #[schemars(length(max = 8_000), regex(pattern = PLAIN_LINES))]
    pub description: String,
    /// The description in other languages, by language tag.
    #[serde(default, skip_serializing_if = "Translations::is_empty")]
    #[schemars(with = "BTreeMap<String, String>", extend("maxProperties" = MAX_LANGUAGES))]
    pub descriptions: Translations,
    /// URL of a picture; may be empty.
    #[serde(default)]
    #[schemars(length(max = 2_000), regex(pattern = PLAIN_TEXT))]
    pub image: String,
    /// When reservations open.
    pub starts_at: Millis,
    /// When reservations end.
    pub ends_at: Millis,
    /// Seconds that a buyer has to pay before the order expires.
    #[serde(default = "default_number::<300>")]
    #[schemars(range(min = 1, max = 86_400))]
    pub pay_timeout_seconds: i64,
    /// Seconds by which starting a payment extends the hold, once.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub pay_extension_seconds: i64,
    /// Maximum live units of one SKU per user.
    #[serde(default = "default_number::<1>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_user: i64,
    /// The human check.
    #[serde(default)]
    pub human_check: HumanCheck,
    /// The lowest cost factor of a proof of work; demand raises it up to 8.
    #[serde(default = "default_number::<1>")]
    #[schemars(range(min = 1, max = MAX_DIFFICULTY))]
    pub min_difficulty: i64,
    /// Conditions that a user must meet.
    #[serde(default, deserialize_with = "body::object")]
    pub eligibility: Eligibility,
    /// What a checkout asks of the buyer besides the payment.
    #[serde(default)]
    pub checkout: Checkout,
    /// Whether it only rehearses a sale (G21): it is not listed, its events say so, and once it is closed and paid back it
    /// can be deleted at once. Fixed when it is created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// Who comes when nothing is left.
    #[serde(default, deserialize_with = "body::object", skip_serializing_if = "Line::is_default")]
    pub line: Line,
    /// Whether a refunded unit goes back on sale.
    #[serde(default = "default_true")]
    pub refund_restocks: bool,
    /// Seconds after the payment in which the buyer may request a refund; null or absent is without end, 0 is never. The time ends
    /// when the activity is erased (`retention_days`), if that is earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REFUND_WINDOW_SECONDS))]
    pub refund_window_seconds: Option<i64>,
    /// Rate limits.
    #[serde(default, deserialize_with = "body::object")]
    pub limits: Limits,
    /// Maximum predicted wait, in seconds, until a new order is written to the ledger. Above it, reservations are shed
    /// (B9).
    #[serde(default = "default_number::<60>")]
    #[schemars(range(min = 1, max = 86_400))]
    pub max_wait_seconds: i64,
    /// The SKUs; 1 to 50.
    #[serde(deserialize_with = "body::objects")]
    #[schemars(length(min = 1, max = 50))]
    pub skus: Vec<Sku>,
}

/// The longest time in which a buyer may request a refund, unless it has no end: ten years.
pub const MAX_REFUND_WINDOW_SECONDS: i64 = 10 * 366 * 86_400;

fn default_number<const N: i64>() -> i64 {
    N
}

fn default_true() -> bool {
    true
}

// PostgreSQL refuses NUL, escaped or not; other control characters are in no text that an operator typed.
const NAME_RULE: &str = "must be 1 to 200 characters without control characters";

const USER_RULE: &str = "must be visible characters, with single spaces between them";

fn is_name(text: &str) -> bool {
    (1..=200).contains(&text.chars().count()) && !text.contains(char::is_control)
}

const DESCRIPTION_RULE: &str = "must be at most 8,000 bytes without control characters but line breaks and tabs";

fn is_description(text: &str) -> bool {
    text.len() <= 8_000 && !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

const IMAGE_RULE: &str = "must be at most 2,000 bytes without control characters";

fn is_image(text: &str) -> bool {
    text.len() <= 2_000 && !text.contains(char::is_control)
}

const LANGUAGES_RULE: &str = "must have at most 20 members, each a language tag";

fn are_languages(translations: &Translations) -> bool {
    translations.len() <= MAX_LANGUAGES && translations.keys().all(|tag| !tag.as_str().is_empty())
}

impl ActivitySpec {
    /// Seconds that a buyer has to pay a unit that came back and was offered.
    #[must_use]
    pub fn offer_seconds(&self) -> i64 {
        self.line.offer_seconds.unwrap_or(self.pay_timeout_seconds)
    }

    /// Returns one error for each violated rule; empty if the spec is valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut check = |ok: bool, pointer: &str, detail: &str| {
            if !ok {
                errors.push(FieldError::new(pointer, detail));
            }
        };
        check(is_name(&self.title), "/title", NAME_RULE);
        check(is_description(&self.description), "/description", DESCRIPTION_RULE);
        for (tag, title) in &self.titles {
            check(is_name(title), &format!("/titles/{}", tag.as_str()), NAME_RULE);
        }
        for (tag, text) in &self.descriptions {
            check(is_description(text), &format!("/descriptions/{}", tag.as_str()), DESCRIPTION_RULE);
        }
        check(are_languages(&self.titles), "/titles", LANGUAGES_RULE);
        check(are_languages(&self.descriptions), "/descriptions", LANGUAGES_RULE);
        check(is_image(&self.image), "/image", IMAGE_RULE);
        check(self.ends_at > self.starts_at, "/ends_at", "must be after starts_at");
        check((1..=86_400).contains(&self.pay_timeout_seconds), "/pay_timeout_seconds", "must be 1 to 86,400");
        check((0..=86_400).contains(&self.pay_extension_seconds), "/pay_extension_seconds", "must be 0 to 86,400");
        check((1..=86_400).contains(&self.max_wait_seconds), "/max_wait_seconds", "must be 1 to 86,400");
        let line_units = self.line.max_units.unwrap_or(1);
        check((1..=MAX_LINE_UNITS).contains(&line_units), "/line/max_units", "must be 1 to 100,000");
        let offer_seconds = self.line.offer_seconds.unwrap_or(1);
        check((1..=86_400).contains(&offer_seconds), "/line/offer_seconds", "must be 1 to 86,400");
        let refund_window = self.refund_window_seconds.unwrap_or(0);
        check(
            (0..=MAX_REFUND_WINDOW_SECONDS).contains(&refund_window),
            "/refund_window_seconds",
            "must be null, or 0 to 316,224,000",
        );
        check((1..=MAX_DIFFICULTY).contains(&self.min_difficulty), "/min_difficulty", "must be 1 to 8");
        check((1..=1_000_000).contains(&self.per_user), "/per_user", "must be 1 to 1,000,000");
        check(
            (0..=1_000_000).contains(&self.eligibility.min_level),
            "/eligibility/min_level",
            "must be 0 to 1,000,000",
        );
        for (index, user) in self.eligibility.allow.iter().enumerate() {
            check(user.is_nameable(), &format!("/eligibility/allow/{index}"), USER_RULE);
        }
        check(self.eligibility.groups.len() <= 50, "/eligibility/groups", "must name at most 50 groups");
        for (index, group) in self.eligibility.groups.iter().enumerate() {
            check(is_name(group), &format!("/eligibility/groups/{index}"), NAME_RULE);
        }
        check((1..=50).contains(&self.skus.len()), "/skus", "must name 1 to 50 SKUs");
        for (name, limit) in [("user", self.limits.user), ("ip", self.limits.ip), ("all", self.limits.all)] {
            if let Some(Some(limit)) = limit {
                let ok = (1..=1_000_000_000).contains(&limit.count) && (1..=86_400).contains(&limit.seconds);
                check(ok, &format!("/limits/{name}"), "needs a count of 1 or more and 1 to 86,400 seconds");
            }
        }
        for (index, sku) in self.skus.iter().enumerate() {
            let pointer_to = |member: &str| format!("/skus/{index}/{member}");
            let duplicate = self.skus[..index].iter().any(|other| other.sku == sku.sku);
            check(!duplicate, &pointer_to("sku"), "is named twice");
            check(is_name(&sku.name), &pointer_to("name"), NAME_RULE);
            for (tag, name) in &sku.names {
                check(is_name(name), &pointer_to(&format!("names/{}", tag.as_str())), NAME_RULE);
            }
            check(are_languages(&sku.names), &pointer_to("names"), LANGUAGES_RULE);
            check(is_image(&sku.image), &pointer_to("image"), IMAGE_RULE);
            check(sku.item.is_empty() || is_name(&sku.item), &pointer_to("item"), NAME_RULE);
            for (tag, item) in &sku.items {
                check(is_name(item), &pointer_to(&format!("items/{}", tag.as_str())), NAME_RULE);
            }
            check(are_languages(&sku.items), &pointer_to("items"), LANGUAGES_RULE);
            check((0..=MAX_PRICE).contains(&sku.price), &pointer_to("price"), "must be 0 to 10^12 minor units");
            // A free order has no payment page that could ask for an address.
            let has_page = sku.price > 0 || self.checkout != Checkout::Provider;
            check(has_page, &pointer_to("price"), "must not be 0 where the payment page asks for the address");
            let max_amount = sku.price.saturating_mul(self.per_user);
            check(max_amount <= MAX_AMOUNT, &pointer_to("price"), "times per_user must be less than 2^53 minor units");
            let is_currency = decimals(&sku.currency).is_some();
            check(is_currency, &pointer_to("currency"), "must be an ISO 4217 code, such as EUR");
            check((-1..=MAX_TOTAL).contains(&sku.total), &pointer_to("total"), "must be -1 (unlimited) or 0 to 10^9");
        }
        errors
    }
}

#[cfg(test)]
mod tests;
