//! What visitors and buyers ask of Redis, one round trip each.

pub mod admit;
pub mod glance;
pub mod limits;
pub mod reserve;
pub mod status;
