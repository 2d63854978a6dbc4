//! The calls of the app to a payment service of the shop, and its answers (docs/payments.md).
//!
//! A call is a Standard Webhooks message with an answer. Everything that it asks for is in the signed body.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    ids::{OrderNo, SkuId},
    language::Language,
    money::Money,
    time::Millis,
    webhook::{SignedMessage, sign},
};

/// A call, by the type of its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum PaymentCall {
    /// Opens a payment session.
    #[serde(rename = "session.open")]
    OpenSession(OpenSession),
    /// Ends a payment session that is not paid, and asks for its status.
    #[serde(rename = "session.close")]
    CloseSession(CloseSession),
    /// Refunds what is left of a payment, or a part of it.
    #[serde(rename = "refund.create")]
    CreateRefund(CreateRefund),
    /// Asks for the status of a refund.
    #[serde(rename = "refund.get")]
    GetRefund(GetRefund),
}

/// The payment session to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSession {
    /// The order to pay.
    pub order_no: OrderNo,
    /// Number of the session among the order's sessions, from 1. The next one is opened after the last has ended.
    #[schemars(range(min = 1))]
    pub session_number: i64,
    /// The price of all units.
    #[serde(flatten)]
    pub money: Money,
    /// The item.
    pub sku: SkuId,
    /// Number of units.
    #[schemars(range(min = 1))]
    pub quantity: i64,
    /// The item's name.
    pub name: String,
    /// Address of a picture of the item; may be empty.
    pub image: String,
    /// Language of the buyer: a language tag such as `zh-CN`, or empty if it is not known.
    #[schemars(with = "String")]
    pub language: Language,
    /// When the order was placed.
    pub created_at: Millis,
    /// The order's deadline. The first session may extend it by the sale's `pay_extension_seconds`.
    pub pay_by: Millis,
    /// Where the buyer goes after the payment.
    #[schemars(extend("format" = "uri"))]
    pub return_url: String,
    /// Where the buyer goes without a payment.
    #[schemars(extend("format" = "uri"))]
    pub cancel_url: String,
}

/// The payment session to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloseSession {
    /// The session.
    pub session: String,
    /// Its order.
    pub order_no: OrderNo,
}

/// The payment to refund: what is left of it, or a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreateRefund {
    /// The order that the payment was for.
    pub order_no: String,
    /// The service's id of the payment.
    pub payment: String,
    /// What is left: the payment, less the parts that callbacks have reported as refunded, and those of the app. Or a part.
    #[serde(flatten)]
    pub money: Money,
    /// Number of refunds of this payment, or part, that the service reported as failed.
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// The id of a part: each is a refund of its own. Absent for what is left of the payment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
}

/// The refund to look up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetRefund {
    /// The service's id of the refund.
    pub refund: String,
    /// The order that the payment was for.
    pub order_no: String,
    /// The service's id of the payment.
    pub payment: String,
}

/// Maximum length of an id of the service, in characters: what the ledger keeps of one.
pub const MAX_ID_CHARS: usize = 200;

/// Whether the ledger can keep an id of the service unchanged; it may be empty.
#[must_use]
pub fn is_kept_unchanged(id: &str) -> bool {
    id.chars().count() <= MAX_ID_CHARS && !id.contains('\0')
}

/// Deserialises an id of the service, if the ledger can keep it unchanged; it may be empty.
pub(super) fn parse_id_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked_id(String::deserialize(deserializer)?)
}

/// As [`parse_id_or_empty`], for an id that may be absent.
pub(super) fn parse_optional_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)?.map(checked_id).transpose()
}

/// As [`parse_id_or_empty`], for an id that is never empty.
pub(super) fn parse_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = parse_id_or_empty(deserializer)?;
    if id.is_empty() { Err(D::Error::custom("must not be empty")) } else { Ok(id) }
}

fn checked_id<E: Error>(id: String) -> Result<String, E> {
    if is_kept_unchanged(&id) {
        return Ok(id);
    }
    Err(E::custom("must have at most 200 characters, none of them NUL"))
}

/// The answer to `session.open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionOpened {
    /// The service's id of the session.
    #[schemars(length(min = 1, max = MAX_ID_CHARS))]
    pub session: String,
    /// The payment page.
    #[schemars(extend("format" = "uri"))]
    pub url: String,
}

/// The answer to `session.close`, by the session's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SessionClosed {
    /// Not paid, and it can no longer be paid.
    Closed,
    /// The buyer has paid.
    Paid {
        /// The service's id of the payment.
        #[schemars(length(min = 1, max = MAX_ID_CHARS))]
        payment: String,
        /// Amount and currency of the payment.
        #[serde(flatten)]
        money: Money,
    },
    /// The buyer has confirmed the payment, and the result is not known yet. The app asks again.
    Processing,
}

/// The answer to `refund.create` and `refund.get`. To `refund.create` of a payment of which nothing is left, since a refund
/// is pending or has succeeded: that refund. So for a part that was asked for before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefundAnswer {
    /// The service's id of the refund.
    #[schemars(length(min = 1, max = MAX_ID_CHARS))]
    pub refund: String,
    /// Its status.
    pub status: RefundOutcome,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Status of a refund at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RefundOutcome {
    /// Accepted; a callback, or a later look-up, has the result.
    Pending,
    /// The money is returned.
    Succeeded,
    /// The money is not returned. The app requests a new refund.
    Failed,
}

/// A hash of texts, because an id of the service may contain what a header cannot.
fn hash(parts: serde_json::Value) -> String {
    hex::encode(&Sha256::digest(parts.to_string())[..16])
}

/// The id of the part that an operator requests with an idempotency key.
#[must_use]
pub fn part_id(order_no: &OrderNo, key: &str) -> String {
    hash(json!([order_no, key]))
}

impl PaymentCall {
    /// The message to send at `now`, signed with each of `secrets`. `None` if one of them is malformed, or there is none.
    #[must_use]
    pub fn message(&self, secrets: &str, now: Millis) -> Option<SignedMessage> {
        #[derive(Serialize)]
        struct Body<'a> {
            #[serde(flatten)]
            call: &'a PaymentCall,
            timestamp: Millis,
        }
        let body = serde_json::to_string(&Body { call: self, timestamp: now }).ok()?;
        sign(secrets, self.id(now), now, body)
    }

    /// The message's id, which is the idempotency key. A retry of a call that creates something has the same id: it
    /// follows from the ledger alone. Other calls change nothing when they are repeated, and their answers may change,
    /// so that each has its own id.
    fn id(&self, now: Millis) -> String {
        match self {
            Self::OpenSession(open) => format!("open_{}_{}", open.order_no.ulid(), open.session_number),
            Self::CreateRefund(CreateRefund { order_no, payment, failures, part, .. }) => {
                let parts = [order_no, payment, part].into_iter().filter(|text| !text.is_empty());
                format!("refund_{}_{failures}", hash(json!(parts.collect::<Vec<_>>())))
            }
            Self::CloseSession(close) => format!("close_{}_{}", hash(json!([close.session])), now.0),
            Self::GetRefund(get) => format!("get_{}_{}", hash(json!([get.refund])), now.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    fn refund(payment: &str, failures: i64) -> PaymentCall {
        let (order_no, money) = ("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(), Money::new(100, "EUR"));
        let part = String::new();
        PaymentCall::CreateRefund(CreateRefund { order_no, payment: payment.to_owned(), money, failures, part })
    }

    #[test]
    fn a_retry_has_the_id_of_the_first_attempt_and_another_refund_has_another_id() {
        let id = |call: PaymentCall, at: i64| call.message(SECRET, Millis(at)).expect("signed").id;
        assert_eq!(id(refund("pay.1\u{e9}", 0), 1_000), id(refund("pay.1\u{e9}", 0), 9_000));
        assert_ne!(id(refund("pay.1", 0), 1_000), id(refund("pay.1", 1), 1_000));
        assert_ne!(id(refund("pay.1", 0), 1_000), id(refund("pay.2", 0), 1_000));
        let get = || {
            let (refund, payment) = ("re".to_owned(), "pay".to_owned());
            PaymentCall::GetRefund(GetRefund { refund, order_no: String::new(), payment })
        };
        assert_ne!(id(get(), 1_000), id(get(), 1_001), "the answer may change");
        assert!(id(refund("pay.1\u{e9}\n", 0), 1_000).bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    }
}
