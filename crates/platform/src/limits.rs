//! Rate limits in HTTP responses (B4): the headers `RateLimit` and `RateLimit-Policy`, and problems.

use domain::{
    problem::{Code, Problem},
    time::ceil_seconds,
};
use workflows::hot::limits::RateLimitStatus;

/// Returns the headers `RateLimit` and `RateLimit-Policy`; none if there is no limit.
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
