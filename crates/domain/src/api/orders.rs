//! Payments of orders, and the callbacks of payment providers.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::payments::{MAX_ID_CHARS, parse_id, parse_id_or_empty, parse_optional_id};
use crate::{address::Address, language::Language, order::OrderStatus, time::Millis, webhook::DisputeStatus};

/// What a buyer sends to pay.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "Checkout")]
pub struct CheckoutBody {
    /// The delivery address: the lines of the shop's form, by name; required where the activity's `checkout` is `form`, and
    /// not kept elsewhere. Where it has a `country` (ISO 3166-1 alpha-2), `city`, `state` and `postal_code` are needed as in
    /// that country. It is stored encrypted, and erased when its retention time is over. Until the order is paid,
    /// another one replaces it.
    #[serde(default)]
    #[schemars(with = "Option<Address>")]
    pub address: Option<Map<String, Value>>,
    /// The buyer's language for the payment page: a language tag (BCP 47), or empty. The order's first checkout fixes it.
    #[serde(default)]
    #[schemars(with = "String", length(max = 35))]
    pub language: Language,
}

/// What a buyer may send to cancel.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Cancel")]
pub struct CancelBody {
    /// The status that the buyer saw, such as `waiting`: an order that has another one by now stays, and is `state_conflict`.
    #[serde(default)]
    pub status: Option<OrderStatus>,
}

/// A checkout.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckedOut<'a> {
    /// The payment page; the order's page, as a path of the shop, if the order cost nothing and is paid.
    #[schemars(with = "str", extend("format" = "uri-reference"))]
    pub checkout_url: Option<&'a str>,
    /// The deadline.
    #[schemars(with = "Millis")]
    pub pay_by: Option<Millis>,
}

/// The types of callbacks that the app uses.
pub const CALLBACK_TYPES: [&str; 4] = ["payment.succeeded", "payment.failed", "refund.succeeded", "refund.failed"];

/// The type of a callback about a session that ended unpaid.
pub const SESSION_ENDED: &str = "session.ended";

/// A payment callback: a Standard Webhooks message.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "PaymentCallback")]
pub struct CallbackBody {
    /// The type.
    #[schemars(extend("enum" = CALLBACK_TYPES))]
    pub r#type: String,
    /// When it happened; ignored.
    #[serde(default)]
    #[schemars(with = "Value")]
    pub timestamp: IgnoredAny,
    /// The payment or refund.
    pub data: CallbackData,
}

/// The payment or refund of a callback.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CallbackData {
    /// The order. A callback for one that the ledger lost is parked for an operator, one for another app's order ignored.
    pub order_no: String,
    /// The provider's id of the payment.
    #[serde(deserialize_with = "parse_id_or_empty")]
    #[schemars(length(max = MAX_ID_CHARS))]
    pub payment: String,
    /// Amount in minor units.
    pub amount: i64,
    /// ISO 4217 code in upper case.
    pub currency: String,
    /// The provider's id of the refund, in callbacks of refunds.
    #[serde(default, deserialize_with = "parse_optional_id")]
    #[schemars(length(max = MAX_ID_CHARS))]
    pub refund: Option<String>,
    /// The payment session. Operators see if it is not that of the order.
    #[serde(default, deserialize_with = "parse_any_text")]
    #[schemars(with = "Value")]
    pub session: String,
}

/// Deserialises any value as a text: a payment counts, whatever stands there.
fn parse_any_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// The type of a callback about a dispute.
pub const PAYMENT_DISPUTED: &str = "payment.disputed";

/// A callback about a payment that its payer disputes, sent again when its status changes. It changes no order.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct PaymentDisputed {
    /// The type.
    #[schemars(extend("const" = PAYMENT_DISPUTED))]
    pub r#type: String,
    /// When it happened: the latest counts.
    pub timestamp: Millis,
    /// The dispute.
    pub data: DisputeData,
}

/// The dispute of a callback.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct DisputeData {
    /// The order.
    pub order_no: String,
    /// The provider's id of the payment.
    #[serde(deserialize_with = "parse_id_or_empty")]
    #[schemars(length(max = MAX_ID_CHARS))]
    pub payment: String,
    /// The provider's id of the dispute.
    #[serde(deserialize_with = "parse_id")]
    #[schemars(length(min = 1, max = MAX_ID_CHARS))]
    pub dispute: String,
    /// What became of it.
    pub status: DisputeStatus,
    /// How much is disputed, in minor units.
    pub amount: i64,
    /// ISO 4217 code in upper case.
    pub currency: String,
    /// Why, for operators.
    #[serde(default)]
    pub reason: String,
}

/// A callback about a payment session that ended before its order did, unpaid: the next checkout opens another one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct SessionEnded {
    /// The type.
    #[schemars(extend("const" = SESSION_ENDED))]
    pub r#type: String,
    /// When it happened; ignored.
    #[serde(default)]
    #[schemars(with = "Value")]
    pub timestamp: IgnoredAny,
    /// The session.
    pub data: SessionEndedData,
}

/// The session of a callback.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SessionEndedData {
    /// Its order.
    pub order_no: String,
    /// The session.
    #[serde(deserialize_with = "parse_id_or_empty")]
    #[schemars(length(max = MAX_ID_CHARS))]
    pub session: String,
}
