//! Logs operators' calls, refused ones too, without users and addresses (G6).
//!
//! A line has the route's pattern and a keyed hash of the call's subject: lines about one user can be found by who knows
//! the key, and a log alone names no user.

use domain::{
    http::routes::{Admin, Endpoint as _},
    log_limit::LogLimit,
    time::Millis,
};
use operations::ledger::operator_changes::keyed_hash;
use platform::{http::ApiError, log, paging, settings};

use crate::call::{Call, Outcome};

/// Logs a call that changed something, that showed data about buyers, or that was refused.
pub async fn record(call: &Call<'_>, result: &Result<Outcome, ApiError>) {
    let (event, status, code) = match result {
        Ok(Outcome::Read(_)) => return,
        Ok(Outcome::ReadBuyers(response)) => ("operator read", response.status, ""),
        Ok(Outcome::Unchanged(response) | Outcome::Changed { response, .. }) => ("operator call", response.status, ""),
        Err(ApiError::Problem(problem)) => ("operator call refused", problem.code.status(), problem.code.as_str()),
        // The error itself is logged where it becomes a response.
        Err(_) => ("operator call failed", 0, ""),
    };
    let secret = settings::find(settings::TICKET_SECRET).await.unwrap_or_default();
    let mut fields = vec![
        ("method", call.request.method.as_str().into()),
        ("route", call.endpoint.pattern().into()),
        ("status", i64::from(status).into()),
        ("request_id", call.request.request_id.as_str().into()),
        ("operator", call.operator.name.as_str().into()),
    ];
    if !code.is_empty() {
        fields.push(("code", code.into()));
    }
    if !call.subject.is_empty() {
        fields.push(("subject", keyed_hash(&secret, &call.subject).into()));
    }
    // A refused parameter can be any text.
    if event == "operator read"
        && let Some((name, start)) = page_start(call, &secret)
    {
        fields.push((name, start.into()));
    }
    log::info(event, &fields);
}

/// Returns the query parameter that says which page was read, without what names a user or an address, or is a provider's
/// text.
fn page_start(call: &Call<'_>, secret: &str) -> Option<(&'static str, String)> {
    let start = paging::before(call.request)?;
    let start = match call.endpoint {
        Admin::ListBans => keyed_hash(secret, start.split_once('/').map_or(&*start, |(_, subject)| subject)),
        Admin::ListCallbacks | Admin::ListRefunds => keyed_hash(secret, &start),
        _ => start,
    };
    Some(("before", start))
}

/// Counts a call without a valid token. Logs at most one line a second with the number of such calls since the line
/// before, because any client can make them.
pub fn count_unauthenticated(now: Millis) {
    thread_local! {
        static LIMIT: LogLimit = const { LogLimit::new(1_000) };
    }
    if let Some(number) = LIMIT.with(|limit| limit.count(now)) {
        log::info("operator calls without a valid token", &[("number", number.into())]);
    }
}
