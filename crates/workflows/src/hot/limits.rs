//! Limits and abuse, as the scripts that begin with `lua/parts/limits.lua` see them (B4, B6).

use crate::{keys::Keys, ports::RedisArg};

/// One rate limit as it stands after this request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// `user`, `ip` or `all`.
    pub name: String,
    /// Requests in a window.
    pub quota: i64,
    /// The window, in seconds.
    pub window_seconds: i64,
    /// Requests left.
    pub remaining: i64,
    /// Seconds until there is more.
    pub reset_seconds: i64,
}

/// Reads what a script says of its limits.
pub(super) fn parse_rate_limits(text: &str) -> Vec<RateLimit> {
    text.split('|')
        .filter_map(|entry| {
            let mut parts = entry.split(';');
            let name = parts.next()?.to_owned();
            let mut number = || parts.next()?.parse().ok();
            Some(RateLimit {
                name,
                quota: number()?,
                window_seconds: number()?,
                remaining: number()?,
                reset_seconds: number()?,
            })
        })
        .collect()
}

/// Adds what addresses did to a call of a script, as its header says.
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
