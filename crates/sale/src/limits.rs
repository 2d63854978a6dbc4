//! Rate limits and counts of the scripts that start with `crates/stores/lua/limits.lua`, and the limits in responses
//! (B4, B6).

use domain::{
    http::problem::{Code, Problem},
    time::ceil_seconds,
};
use stores::{keys::Keys, ports::RedisArg};

/// State of one rate limit after a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// `user`, `ip`, `site` (an IPv6 /48) or `all`.
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

/// Appends what [`InstanceCounts::take`] returned to a script's arguments: for each count its name and its number. Appends
/// abuse and mark of each address among them to its keys.
///
/// [`InstanceCounts::take`]: super::instance_counts::InstanceCounts::take
pub(super) fn push_counts(
    counts: &[(String, i64)],
    keys: &Keys,
    script_keys: &mut Vec<String>,
    args: &mut Vec<RedisArg>,
) {
    for (name, number) in counts {
        args.extend([name.as_str().into(), number.to_string().into()]);
        if !name.starts_with("refused:") {
            script_keys.extend([keys.ip("abuse", name), keys.ip("suspect", name)]);
        }
    }
}

/// Returns the headers `RateLimit` and `RateLimit-Policy` of a response; none if there is no limit.
#[must_use]
pub fn headers(rate_limits: &[RateLimitStatus]) -> Vec<(&'static str, String)> {
    if rate_limits.is_empty() {
        return Vec::new();
    }
    let list = |item: fn(&RateLimitStatus) -> String| rate_limits.iter().map(item).collect::<Vec<_>>().join(", ");
    vec![
        ("ratelimit-policy", list(|p| format!("\"{}\";q={};w={}", p.name, p.quota, p.window_seconds))),
        ("ratelimit", list(|p| format!("\"{}\";r={};t={}", p.name, p.remaining, p.reset_seconds))),
    ]
}

/// Adds the limits' headers to the problem of a refused request.
///
/// `rate_limited`, `overloaded` and `not_open` also get `Retry-After` if `wait_ms` is positive, and `rate_limited` the
/// names of the limits that are used up.
#[must_use]
pub fn add_to_problem(mut problem: Problem, wait_ms: i64, rate_limits: &[RateLimitStatus]) -> Problem {
    if wait_ms > 0 && matches!(problem.code, Code::RateLimited | Code::Overloaded | Code::NotOpen) {
        problem = problem.retry_after(ceil_seconds(wait_ms));
    }
    if problem.code == Code::RateLimited {
        let exhausted = rate_limits.iter().filter(|limit| limit.remaining == 0);
        problem.violated_policies = exhausted.map(|limit| limit.name.clone()).collect();
    }
    problem.headers.extend(headers(rate_limits));
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Vec<RateLimitStatus> {
        parse_rate_limits("user;3;10;0;7|all;500;1;499;0")
    }

    #[test]
    fn the_headers_list_every_limit_with_quota_window_rest_and_reset() {
        let headers = headers(&limits());
        let expected = [
            ("ratelimit-policy", r#""user";q=3;w=10, "all";q=500;w=1"#),
            ("ratelimit", r#""user";r=0;t=7, "all";r=499;t=0"#),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_left_out() {
        assert_eq!(parse_rate_limits("user;3;10;0|ip;many;1;1;1|all;500;1;499;0"), limits()[1..]);
        assert_eq!((parse_rate_limits(""), headers(&[])), (vec![], vec![]));
    }

    #[test]
    fn only_refusals_that_waiting_helps_get_the_wait() {
        for (code, expected) in [
            (Code::Overloaded, Some(5)),
            (Code::NotOpen, Some(5)),
            (Code::SoldOut, None),
            (Code::Banned, None),
            (Code::Paused, Some(1)),
        ] {
            let problem = add_to_problem(Problem::new(code, ""), 5_000, &limits());
            assert_eq!((problem.retry_after, problem.violated_policies.len()), (expected, 0), "{code:?}");
        }
        assert_eq!(add_to_problem(Problem::new(Code::NotOpen, ""), 0, &[]).retry_after, None);
    }
}
