//! Rate limits and abuse counts of the scripts that start with `lua/parts/limits.lua` (B4, B6).

use crate::{keys::Keys, ports::RedisArg};

/// State of one rate limit after a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// `user`, `ip` or `all`.
    pub name: String,
    /// Requests allowed per window.
    pub quota: i64,
    /// Length of the window, in seconds.
    pub window_seconds: i64,
    /// Requests remaining.
    pub remaining: i64,
    /// Seconds until the quota is full again; for the limit that refused the request, until the next request is
    /// allowed.
    pub reset_seconds: i64,
}

/// Parses the limits in a script's reply: `name;count;seconds;left;reset`, joined by `|`.
pub(super) fn parse_rate_limits(text: &str) -> Vec<RateLimitStatus> {
    text.split('|')
        .filter_map(|entry| {
            let mut parts = entry.split(';');
            let name = parts.next()?.to_owned();
            let mut number = || parts.next()?.parse().ok();
            Some(RateLimitStatus {
                name,
                quota: number()?,
                window_seconds: number()?,
                remaining: number()?,
                reset_seconds: number()?,
            })
        })
        .collect()
}

/// Appends the abuse counts of addresses to a script's keys and arguments, in the order that the scripts' headers give.
pub(super) fn push_abuse(
    keys: &Keys,
    abuse_by_ip: &[(String, i64)],
    script_keys: &mut Vec<String>,
    args: &mut Vec<RedisArg>,
) {
    for (ip, count) in abuse_by_ip {
        script_keys.extend([keys.abuse_ip(ip), keys.ban_ip(ip)]);
        args.push(count.to_string().into_bytes());
    }
}
