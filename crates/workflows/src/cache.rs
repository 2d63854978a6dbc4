//! Caches: gate and stock loaded into Redis, the set of listed activities, leases in Redis, copies in memory and what
//! visitors see of them, the identity provider's keys.

pub mod issuer_keys;
pub mod lease;
pub mod listed_activities;
pub mod published;
pub mod shared_value;
pub mod ttl;
pub mod visitors;
pub mod warm_up;
