//! Limits and abuse, as the scripts that begin with `lua/parts/limits.lua` see them (B4, B6).

use crate::{keys::Keys, ports::Arg};

/// One rate limit as it stands after this request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `user`, `ip` or `all`.
    pub name: String,
    /// Requests in a window.
    pub quota: i64,
    /// The window, in seconds.
    pub window: i64,
    /// Requests left.
    pub left: i64,
    /// Seconds until there is more.
    pub reset: i64,
}

/// Reads what a script says of its limits.
pub(super) fn policies(text: &str) -> Vec<Policy> {
    text.split('|')
        .filter_map(|policy| {
            let mut parts = policy.split(';');
            let name = parts.next()?.to_owned();
            let mut number = || parts.next()?.parse().ok();
            Some(Policy { name, quota: number()?, window: number()?, left: number()?, reset: number()? })
        })
        .collect()
}

/// Adds what addresses did to a call of a script, as its header says.
pub(super) fn tell(keys: &Keys, abused: &[(String, i64)], names: &mut Vec<String>, args: &mut Vec<Arg>) {
    for (ip, count) in abused {
        names.extend([keys.abuse_ip(ip), keys.ban_ip(ip)]);
        args.push(count.to_string().into_bytes());
    }
}
