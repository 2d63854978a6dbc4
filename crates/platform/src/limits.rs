//! Limits on the wire (B4): `RateLimit`, `RateLimit-Policy`, and what a refusal says.

use domain::{
    problem::{Code, Problem},
    time::seconds_up,
};
use workflows::hot::limits::Policy;

/// `RateLimit` and `RateLimit-Policy`; nothing where there is no limit.
#[must_use]
pub fn headers(policies: &[Policy]) -> Vec<(&'static str, String)> {
    if policies.is_empty() {
        return Vec::new();
    }
    let list = |item: fn(&Policy) -> String| policies.iter().map(item).collect::<Vec<_>>().join(", ");
    vec![
        ("ratelimit-policy", list(|p| format!("\"{}\";q={};w={}", p.name, p.quota, p.window))),
        ("ratelimit", list(|p| format!("\"{}\";r={};t={}", p.name, p.left, p.reset))),
    ]
}

/// A refusal that carries the limits, and names those that were violated.
#[must_use]
pub fn refusal(mut problem: Problem, wait_ms: i64, policies: &[Policy]) -> Problem {
    if wait_ms > 0 && matches!(problem.code, Code::RateLimited | Code::Overloaded | Code::NotOpen) {
        problem = problem.retry_after(seconds_up(wait_ms));
    }
    if problem.code == Code::RateLimited {
        let spent = policies.iter().filter(|policy| policy.left == 0);
        problem.violated = spent.map(|policy| policy.name.clone()).collect();
    }
    problem.headers.extend(headers(policies));
    problem
}
