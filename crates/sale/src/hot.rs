//! What visitors and buyers ask of Redis, one round trip each.

pub mod glance;
pub mod reserve;
pub mod status;
