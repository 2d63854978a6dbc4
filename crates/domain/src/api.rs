//! The bodies of requests and responses that are no other type of this crate or of the slices.

pub mod admission;
pub mod operators;
pub mod orders;
pub mod payments;
pub mod visitors;

use schemars::JsonSchema;
use serde::Serialize;

/// The result of each check of readiness: `ok`, or what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Checks {
    /// Redis.
    pub redis: String,
    /// The ledger.
    pub ledger: String,
    /// The key-value store.
    pub key_value: String,
    /// The variables that hold secrets.
    pub secrets: String,
    /// The shop's endpoint for events, whose fault does not make the app unready.
    pub events: String,
}

/// The app is ready.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Ready {
    /// Always `ready`.
    #[schemars(extend("const" = "ready"))]
    pub status: &'static str,
    /// The result of each check; only for a caller with the admin or metrics token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Checks")]
    pub checks: Option<Checks>,
}

/// The instance handles requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Live {
    /// Always `ok`.
    #[schemars(extend("const" = "ok"))]
    pub status: &'static str,
}
