//! Logs operators' calls, refused ones too, without users and addresses (G6).
//!
//! A line has the route's pattern and a keyed hash of the call's subject: lines about one user can be found by who knows
//! the key, and a log alone names no user.

use domain::{
    http::routes::{Admin, Endpoint as _},
    log_limit::LogLimit,
    operators::Operator,
    signer::Signer,
    time::Millis,
};
use platform::{
    http::{ApiError, Request, Response, query_decode},
    log, settings,
};

/// A call of an operator.
pub struct Call<'a> {
    /// The request.
    pub request: &'a Request,
    /// Who calls.
    pub operator: &'a Operator,
    /// The route.
    pub endpoint: Admin,
    /// What [`crate::subjects::name`] returns.
    pub subject: &'a str,
}

/// Logs a call that changed something, that showed data about buyers, or that was refused.
pub async fn record(call: &Call<'_>, result: &Result<Response, ApiError>) {
    let Call { request, operator, endpoint, subject } = call;
    let (event, status, code) = match result {
        Ok(response) if !request.method.is_safe() => ("operator call", i64::from(response.status), ""),
        Ok(response) if shows_buyers(*endpoint) || shows_invited(*endpoint, response) => {
            ("operator read", i64::from(response.status), "")
        }
        Ok(_) => return,
        Err(ApiError::Problem(problem)) => {
            ("operator call refused", i64::from(problem.code.status()), problem.code.as_str())
        }
        // The error itself is logged where it becomes a response.
        Err(_) => ("operator call failed", 0, ""),
    };
    let mut fields = vec![
        ("method", request.method.as_str().into()),
        ("route", endpoint.pattern().into()),
        ("status", status.into()),
        ("request_id", request.request_id.as_str().into()),
        ("operator", operator.name.as_str().into()),
    ];
    if !code.is_empty() {
        fields.push(("code", code.into()));
    }
    if !subject.is_empty() {
        fields.push(("subject", hash(subject).await.into()));
    }
    // A refused parameter can be any text.
    if event == "operator read"
        && let Some(name) = page_parameter(*endpoint)
        && let Some(from) = request.query_param(name).filter(|from| !from.is_empty())
    {
        let from = query_decode(from);
        fields.push(match endpoint {
            // A page begins after a user or an address, or after a provider's text.
            Admin::ListBans => (name, hash(from.split_once('/').map_or(&*from, |(_, subject)| subject)).await.into()),
            Admin::ListCallbacks => (name, hash(&from).await.into()),
            _ => (name, from.into()),
        });
    }
    log::info(event, &fields);
}

/// The query parameter that says which page was read; the route has checked it.
fn page_parameter(endpoint: Admin) -> Option<&'static str> {
    match endpoint {
        Admin::ListBans | Admin::ListOrders => Some("after"),
        Admin::ListCallbacks | Admin::ListChanges | Admin::ListDeadLetters => Some("before"),
        _ => None,
    }
}

/// Whether the route's response has data about buyers.
fn shows_buyers(endpoint: Admin) -> bool {
    use Admin::{GetOrder, GetStrikes, ListBans, ListCallbacks, ListChanges, ListDeadLetters, ListOrders, ListRefunds};
    matches!(
        endpoint,
        GetOrder | GetStrikes | ListBans | ListCallbacks | ListChanges | ListDeadLetters | ListOrders | ListRefunds
    )
}

/// Whether the response has an activity with a list of the users who may take part.
fn shows_invited(endpoint: Admin, response: &Response) -> bool {
    const LIST: &[u8] = br#""allow":[""#;
    matches!(endpoint, Admin::GetActivity | Admin::ListActivities)
        && response.body.windows(LIST.len()).any(|text| text == LIST)
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

/// The keyed hash that stands for `text` in the log.
pub async fn hash(text: &str) -> String {
    let Ok(secret) = settings::find(settings::TICKET_SECRET).await else { return String::new() };
    // In hexadecimal digits, which no name of a user is taken for.
    Signer::new(&secret, "stampede log").map(|signer| format!("{:016x}", signer.hash_u64(text))).unwrap_or_default()
}
