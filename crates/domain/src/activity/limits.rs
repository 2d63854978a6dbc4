//! Rate limits of an activity (B4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::body::JsonObject;

/// A rate limit: `count` requests, or orders in `all`, per `seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Limit {
    /// Requests or orders allowed per period, which is also the largest burst.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub count: i64,
    /// Length of the period, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub seconds: i64,
}

/// Rate limits of challenges, tickets and reservations, each in a bucket of its own. Null is no limit; an absent member
/// is the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Limits {
    /// For each user; 60 in 60 seconds by default.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Limit>")]
    pub user: Option<Option<Limit>>,
    /// For each client address, an IPv4 address or an IPv6 /64; none by default. All networks of a /48 together get four
    /// times as many challenges and tickets.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Limit>")]
    pub ip: Option<Option<Limit>>,
    /// For all orders of the activity together, without those that are cancelled; none by default.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Limit>")]
    pub all: Option<Option<Limit>>,
}

/// Deserialises `null` to `Some(None)`; an absent member stays `None`.
fn double_option<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Limit>>, D::Error> {
    Option::<JsonObject<Limit>>::deserialize(deserializer).map(|limit| Some(limit.map(|JsonObject(limit)| limit)))
}

impl Limits {
    /// The limit per user if the activity sets none.
    pub const DEFAULT_USER: Limit = Limit { count: 60, seconds: 60 };

    /// The effective limit per user.
    #[must_use]
    pub fn user(&self) -> Option<Limit> {
        self.user.unwrap_or(Some(Self::DEFAULT_USER))
    }

    /// The effective limit per client address. None by default, because mobile carriers put many users behind one
    /// address.
    #[must_use]
    pub fn ip(&self) -> Option<Limit> {
        self.ip.flatten()
    }

    /// The effective limit on all orders of the activity together. None by default.
    #[must_use]
    pub fn all(&self) -> Option<Limit> {
        self.all.flatten()
    }
}
