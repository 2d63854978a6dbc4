//! Names of the Redis keys of an activity.
//!
//! All keys of one activity share the hash tag `{<activity>}`, so that one script touches one cluster slot.

use domain::ids::{ActivityId, SkuId, UserId};
use ulid::Ulid;

/// Set of the ids of the activities that were given a gate and that sweeps still visit.
pub const ACTIVITIES: &str = "stampede:activities";

/// Sorted set of the activities whose orders were written in the last second, with the time of the latest start.
pub const WRITERS: &str = "stampede:writers";

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

    /// A key that is named only by its kind: `gate`, `orders`, `stats`, `index` or `visitors`.
    #[must_use]
    pub fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Number of units left of a SKU; -1 if it is unlimited.
    #[must_use]
    pub fn stock(&self, sku: &SkuId) -> String {
        format!("{}stock:{sku}", self.prefix)
    }

    /// Hash of live units (held or sold) per user for a SKU. Its size is bounded by the stock, not by the number of
    /// visitors.
    #[must_use]
    pub fn holders(&self, sku: &SkuId) -> String {
        format!("{}holders:{sku}", self.prefix)
    }

    /// Record of an order. It is also the outcome of its ticket, since both have the same ULID.
    #[must_use]
    pub fn order(&self, ulid: Ulid) -> String {
        format!("{}order:{ulid}", self.prefix)
    }

    /// Sorted set of the ULIDs of a user's latest tickets, which are those of their orders (D6).
    #[must_use]
    pub fn tickets(&self, user: &UserId) -> String {
        format!("{}tickets:{user}", self.prefix)
    }

    /// Ban of a user.
    #[must_use]
    pub fn ban_user(&self, user: &UserId) -> String {
        format!("{}ban:user:{user}", self.prefix)
    }

    /// Ban of an IP address.
    #[must_use]
    pub fn ban_ip(&self, ip: &str) -> String {
        format!("{}ban:ip:{ip}", self.prefix)
    }

    /// Abuse counter of a user (B6).
    #[must_use]
    pub fn abuse_user(&self, user: &UserId) -> String {
        format!("{}abuse:user:{user}", self.prefix)
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
