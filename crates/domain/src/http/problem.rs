//! API errors: code, status, title and the RFC 9457 document.
//!
//! Use a specific [`Code`] for an error that a client can act on, and describe the occurrence in [`Problem::new`]. Use
//! [`Code::Internal`] only for unexpected errors: their cause is logged and never sent to the client.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{activity::Requirement, api::Checks, ids::OrderNo, time::Millis};

/// Maximum number of wrong members that a response names: a body can have thousands.
pub(super) const MAX_ERRORS: usize = 100;

/// Maximum length of what is said about a wrong member, which may quote the body, with escapes.
const MAX_ERROR_CHARS: usize = 300;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal, $status:literal, $title:literal, $retry:literal;)*) => {
        /// The stable code of an API error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])* $name,)* }

        impl Code {
            /// All codes, for documentation and metrics.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code's text in the API.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The HTTP status.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// The title, the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// Whether and when the same request may succeed, for documentation.
            #[must_use]
            pub fn retry(self) -> &'static str {
                match self { $(Code::$name => $retry,)* }
            }

            /// When the code is used, for documentation.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc),*).trim_start(),)* }
            }

            /// Parses a code, such as the reply of a Lua script.
            #[must_use]
            pub fn parse(text: &str) -> Option<Code> {
                match text { $($text => Some(Code::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// The resource does not exist, or the caller may not see it.
    NotFound = "not_found", 404, "Not found", "no";
    /// The token is missing or invalid.
    Unauthenticated = "unauthenticated", 401, "Sign in first", "after signing in";
    /// The caller is signed in but not allowed.
    Forbidden = "forbidden", 403, "Not allowed", "no";
    /// The activity has not started.
    NotOpen = "not_open", 403, "The sale is not open", "at the start";
    /// The activity has ended.
    Ended = "ended", 410, "The sale has ended", "no";
    /// An operator paused the activity.
    Paused = "paused", 503, "The sale is paused", "after `Retry-After`";
    /// The request is shed: an operator has turned shedding on (challenges, tickets, reservations), the predicted wait in
    /// the queue is too long (reservations), or the request took too long to be decided (reservations).
    Overloaded = "overloaded", 503, "Too busy right now", "after `Retry-After`, with the same ticket";
    /// Temporarily refused: Redis or the ledger is unavailable, the gate or the stock is not loaded, a variable is
    /// missing or wrong, the payment provider did not answer, or the order of a callback is still queued.
    NotReady = "not_ready", 503, "Not ready", "after `Retry-After`, with the same ticket";
    /// The start key is wrong.
    StartKeyInvalid = "start_key_invalid", 403, "The start key is not valid", "with the key of a new gate";
    /// The ticket is forged, expired, or for another activity.
    TicketInvalid = "ticket_invalid", 401, "The ticket is not valid", "with a new ticket";
    /// The ticket was used before, with another body.
    TicketConflict = "ticket_conflict", 422, "The ticket was used for another order", "no: poll the order of this ticket";
    /// A human check must be solved first.
    HumanCheckRequired = "human_check_required", 403, "A human check is required", "with a solved check";
    /// The human check was not solved, or it is expired, forged or used.
    HumanCheckFailed = "human_check_failed", 403, "The human check failed", "with a new check";
    /// The user does not meet the activity's conditions.
    NotEligible = "not_eligible", 403, "Not eligible for this sale", "no";
    /// The user has too many strikes: orders that were left unpaid, or cancelled late.
    TooManyStrikes = "too_many_strikes", 403, "Too many unpaid orders", "no";
    /// The user or client address is banned.
    Banned = "banned", 403, "Banned", "no";
    /// A rate limit was exceeded.
    RateLimited = "rate_limited", 429, "Too many requests", "after `Retry-After`";
    /// The user already has the maximum number of units.
    LimitReached = "limit_reached", 409, "The limit per buyer is reached", "no";
    /// No unit is left. Also a request whose ticket has made an order may hear it.
    SoldOut = "sold_out", 409, "Sold out", "when the gate no longer lists the SKU";
    /// Fewer units are left than requested: `left`. Also a request whose ticket has made an order may hear it.
    InsufficientStock = "insufficient_stock", 409, "Fewer units are left", "with a quantity of `left`";
    /// The price is not what the buyer was shown (`amount` of the reservation): it is `amount`.
    PriceChanged = "price_changed", 409, "The price has changed", "with the new amount, if the buyer agrees";
    /// The request is malformed.
    InvalidRequest = "invalid_request", 400, "The request is not valid", "no: mend the members at `errors`";
    /// The body is larger than 16 KiB, or a callback than 64 KiB.
    PayloadTooLarge = "payload_too_large", 413, "The body is too large", "no";
    /// The route does not support this method.
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed", "no";
    /// The order or activity is not in a state that allows this.
    StateConflict = "state_conflict", 409, "The state does not allow this", "no: read the order or activity again";
    /// The activity takes no request for a refund of this order: the time for it is over, or there is none.
    RefundClosed = "refund_closed", 409, "No refunds on request", "no";
    /// The payment provider refuses to open a payment of the order. The buyer gets no strike for leaving it unpaid.
    PaymentRefused = "payment_refused", 409, "The payment is refused", "no: the shop must fix the cause";
    /// A callback's signature is invalid.
    SignatureInvalid = "signature_invalid", 401, "The signature is not valid", "no: compare the secrets";
    /// An unexpected error on the server; the log has the cause.
    Internal = "internal", 500, "Something went wrong on our side", "yes, with the same ticket";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// An invalid member of a request body, or an invalid query parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct FieldError {
    /// What is wrong with it.
    pub detail: String,
    /// RFC 6901 pointer to the member, empty for the whole body; `?name` for a query parameter.
    pub pointer: String,
}

impl FieldError {
    /// Creates an error for the member or query parameter at `pointer`.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { detail: shorten(detail.into()), pointer: shorten(pointer.into()) }
    }
}

fn shorten(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_ERROR_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Members of a problem document that only some errors have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Extensions {
    /// With `not_open` for a challenge or a ticket: from when on they are issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    pub opens_at: Option<Millis>,
    /// With `not_eligible`: the condition that the user does not meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Requirement")]
    pub requires: Option<Requirement>,
    /// With `insufficient_stock`: the units left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 1))]
    pub left: Option<i64>,
    /// With `price_changed`: the price of all units, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub amount: Option<i64>,
    /// With `price_changed`: the currency of the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub currency: Option<String>,
    /// With `sold_out` and `insufficient_stock`: the ticket's order. It exists if an earlier request of the ticket was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OrderNo")]
    pub order_no: Option<OrderNo>,
    /// With `not_ready` from `/readyz`, for a caller with the admin or metrics token: the result of each check.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Checks")]
    pub checks: Option<Checks>,
}

/// An RFC 9457 document. Clients act on `code`; `detail` is for people.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemDocument<'a> {
    /// A URI that identifies the kind of problem.
    #[schemars(extend("format" = "uri"))]
    r#type: String,
    /// The same for every occurrence of a code.
    title: &'static str,
    /// The HTTP status.
    #[schemars(with = "i64", range(min = 400, max = 599))]
    status: u16,
    /// What happened, and what the client can do.
    detail: &'a str,
    /// The stable code.
    code: Code,
    /// With `invalid_request`: every invalid member or query parameter.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    /// With `rate_limited`: the limits that were exceeded.
    #[serde(rename = "violated-policies", skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(extend("items" = { "type": "string", "enum": ["user", "ip", "site", "all"] }))]
    violated_policies: &'a [String],
    #[serde(flatten)]
    extensions: &'a Extensions,
}

/// An API error, ready to be sent as a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The code, which determines status and title.
    pub code: Code,
    /// What happened, and what the client can do.
    pub detail: String,
    /// Invalid members of the body, or invalid query parameters.
    pub errors: Vec<FieldError>,
    /// Seconds for `Retry-After`. Always present for a `503` and a `429`.
    pub retry_after: Option<i64>,
    /// The rate-limit policies that were exceeded, for a `429`.
    pub violated_policies: Vec<String>,
    /// Further members of the document.
    pub extensions: Extensions,
    /// Further response headers, such as `RateLimit`.
    pub headers: Vec<(&'static str, String)>,
}

impl Problem {
    /// Creates an error. A `503` and a `429` get `Retry-After: 1`.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after = matches!(code.status(), 503 | 429).then_some(1);
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after,
            violated_policies: Vec::new(),
            extensions: Extensions::default(),
            headers: Vec::new(),
        }
    }

    /// [`Code::InvalidRequest`] for the given members, up to [`MAX_ERRORS`]; the first one is the detail.
    #[must_use]
    pub fn invalid(mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_ERRORS);
        let detail = match errors.first() {
            None => "The body is not valid.".to_owned(),
            Some(first) if first.pointer.is_empty() => format!("The body is not valid: {}.", first.detail),
            Some(first) => format!("{}: {}", first.pointer, first.detail),
        };
        Self { errors, ..Self::new(Code::InvalidRequest, detail) }
    }

    /// [`Code::Internal`]: the cause is logged.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(Code::Internal, "The log has the cause under this x-request-id.")
    }

    /// Sets `Retry-After`, in seconds; at least 1.
    #[must_use]
    pub fn retry_after(mut self, seconds: i64) -> Self {
        self.retry_after = Some(seconds.max(1));
        self
    }

    /// The RFC 9457 document. Its type is the one registered at IANA, or a URN of this project.
    #[must_use]
    pub fn to_json(&self) -> String {
        let r#type = match self.code {
            Code::RateLimited => "https://iana.org/assignments/http-problem-types#quota-exceeded".to_owned(),
            Code::Overloaded => "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity".to_owned(),
            code => format!("urn:stampede:problem:{}", code.as_str()),
        };
        let document = ProblemDocument {
            r#type,
            title: self.code.title(),
            status: self.code.status(),
            detail: &self.detail,
            code: self.code,
            errors: &self.errors,
            violated_policies: &self.violated_policies,
            extensions: &self.extensions,
        };
        serde_json::to_string(&document).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_a_hundred_wrong_members_at_most() {
        let many = vec![FieldError::new("/skus", "is wrong"); 5_000];
        assert_eq!(Problem::invalid(many).errors.len(), MAX_ERRORS);
    }
}
