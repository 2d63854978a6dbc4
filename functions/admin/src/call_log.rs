//! Logs operators' calls, refused ones too, without users and addresses (G6).
//!
//! A line has the route's pattern and a keyed hash of the path's parameters: lines about one user can be found by who
//! knows the key, and a log alone names no user.

use domain::signer::Signer;
use platform::{
    config,
    http::{ApiError, Request, Response},
    log,
};

/// Bytes of the hash in a line.
const HASH_BYTES: usize = 16;

/// Logs a call that changed something, or that was refused. `operator` and `pattern`, the route's, are empty if
/// unknown.
pub async fn record(
    request: &Request,
    operator: &str,
    pattern: &str,
    params: [&str; 2],
    result: &Result<Response, ApiError>,
) {
    let (event, status, code) = match result {
        Ok(_) if request.method.is_safe() => return,
        Ok(response) => ("operator call", i64::from(response.status), ""),
        Err(ApiError::Problem(problem)) => {
            ("operator call refused", i64::from(problem.code.status()), problem.code.as_str())
        }
        // The error itself is logged where it becomes a response.
        Err(_) => ("operator call failed", 0, ""),
    };
    let mut fields = vec![
        ("method", request.method.as_str().into()),
        ("route", pattern.into()),
        ("status", status.into()),
        ("request_id", request.request_id.as_str().into()),
    ];
    if !operator.is_empty() {
        fields.push(("operator", operator.into()));
    }
    if !code.is_empty() {
        fields.push(("code", code.into()));
    }
    if !params[0].is_empty() {
        fields.push(("subject", hash(&params.join("/")).await.into()));
    }
    log::info(event, &fields);
}

async fn hash(text: &str) -> String {
    let secret = config::get("ticket_secret").await;
    let mut hash = Signer::new(&secret, "stampede log").map(|signer| signer.sign(text)).unwrap_or_default();
    hash.truncate(HASH_BYTES);
    hash
}
