//! Redis keys: all of one sale share the hash tag `{<activity>}`, so that one script touches one slot.

use domain::ids::{ActivityId, SkuId, UserId};
use ulid::Ulid;

/// The set of sales that have a gate.
pub const ACTIVITIES: &str = "stampede:activities";

/// The keys of one sale.
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

    /// What every key of the sale begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key by its name: `gate`, `orders`, `queue`, `stats`, `awake`, `winners`, `visitors`.
    #[must_use]
    pub fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Units left of a SKU.
    #[must_use]
    pub fn stock(&self, sku: &SkuId) -> String {
        format!("{}stock:{sku}", self.prefix)
    }

    /// Who holds units of a SKU: bounded by stock, not by visitors.
    #[must_use]
    pub fn holders(&self, sku: &SkuId) -> String {
        format!("{}holders:{sku}", self.prefix)
    }

    /// An order's record, which is also its ticket's outcome.
    #[must_use]
    pub fn order(&self, ulid: Ulid) -> String {
        format!("{}order:{ulid}", self.prefix)
    }

    /// A ban of a user.
    #[must_use]
    pub fn ban_user(&self, user: &UserId) -> String {
        format!("{}ban:user:{user}", self.prefix)
    }

    /// A ban of an address.
    #[must_use]
    pub fn ban_ip(&self, ip: &str) -> String {
        format!("{}ban:ip:{ip}", self.prefix)
    }

    /// The bucket of a rate limit.
    #[must_use]
    pub fn rate_limit(&self, policy: &str, subject: &str) -> String {
        format!("{}rate:{policy}:{subject}", self.prefix)
    }

    /// What a user did lately that they should not.
    #[must_use]
    pub fn abuse_user(&self, user: &UserId) -> String {
        format!("{}abuse:user:{user}", self.prefix)
    }

    /// What an address did lately that it should not.
    #[must_use]
    pub fn abuse_ip(&self, ip: &str) -> String {
        format!("{}abuse:ip:{ip}", self.prefix)
    }

    /// A human check that was used.
    #[must_use]
    pub fn human_check(&self, id: &str) -> String {
        format!("{}check:{id}", self.prefix)
    }
}
