//! Lua functions that scripts of several slices start with.

/// Rate limits: token buckets (B4).
pub const LIMITS: &str = include_str!("../lua/limits.lua");
/// Writing of order records.
pub const ORDER: &str = include_str!("../lua/order.lua");
/// Reading of order records.
pub const READ_ORDER: &str = include_str!("../lua/read_order.lua");
/// Stock and its counters.
pub const STOCK: &str = include_str!("../lua/stock.lua");
