//! Names of the Redis keys of an activity.
//!
//! All keys of one activity share the hash tag `{<activity>}`, so that one script touches one cluster slot.

use domain::ids::{ActivityId, SkuId, UserId};
use ulid::Ulid;

/// Sorted set of the activities whose orders were written in the last second, with the time of the latest start.
pub const WRITERS: &str = "stampede:writers";

/// How many callbacks named orders that this app never made.
pub const FOREIGN_CALLBACKS: &str = "stampede:foreign_callbacks";

/// Redis consumer group of the order writers, on every activity's stream `orders`.
pub const WRITER_GROUP: &str = "writers";

/// The Redis keys of one activity.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// The keys of `activity`.
    #[must_use]
    pub fn of(activity: &ActivityId) -> Self {
        Self { prefix: format!("{{{activity}}}:") }
    }

    /// Common prefix of all keys of the activity.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key that is named only by its kind: `gate`, `orders` (stream), `queued` (hash of the orders that are not written),
    /// `stats` (counters, and the units left of each SKU; -1 if it is unlimited), `holders` (hash of live units by SKU and
    /// user, bounded by the stock), `index`, `visitors`, `entries` (hash of the entries of
    /// the line by user) or `rate:all`.
    #[must_use]
    pub fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Several of them.
    #[must_use]
    pub fn all<const N: usize>(&self, names: [&str; N]) -> Vec<String> {
        names.map(|name| self.named(name)).into()
    }

    /// Sorted set of the users who wait for a unit of a SKU, by epoch and sequence (H1).
    #[must_use]
    pub fn line(&self, sku: &SkuId) -> String {
        format!("{}line:{sku}", self.prefix)
    }

    /// Record of an order that has left the queue. It is also the outcome of its ticket, since both have the same ULID.
    #[must_use]
    pub fn order(&self, ulid: Ulid) -> String {
        format!("{}order:{ulid}", self.prefix)
    }

    /// Sorted set of the ULIDs of a user's latest tickets, which are those of their orders (D6).
    #[must_use]
    pub fn tickets(&self, user: &UserId) -> String {
        format!("{}tickets:{user}", self.prefix)
    }

    /// What is kept of a user: `ban`, `abuse` (B6), or a limit (`rate`, `rate:challenge`, `rate:ticket`).
    #[must_use]
    pub fn user(&self, kind: &str, user: &UserId) -> String {
        format!("{}{kind}:user:{user}", self.prefix)
    }

    /// The same of an IP address or network, and `suspect`: the mark of one that sent much abuse.
    #[must_use]
    pub fn ip(&self, kind: &str, ip: &str) -> String {
        format!("{}{kind}:ip:{ip}", self.prefix)
    }

    /// Marks a human check as used (B5).
    #[must_use]
    pub fn human_check(&self, id: &str) -> String {
        format!("{}check:{id}", self.prefix)
    }

    /// The replica that claimed a doorbell message for one writer.
    #[must_use]
    pub fn doorbell(&self, id: u128) -> String {
        format!("{}doorbell:{id:x}", self.prefix)
    }
}
