//! Records what operators change, and shows it (G2).

use domain::http::{
    problem::{FieldError, Problem},
    routes::{Admin, Endpoint as _},
};
use operations::ledger::operator_changes::{self, OperatorChange};
use platform::{
    clock,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    log,
};
use sale::ledger::activities;
use serde_json::{Value, json};
use stores::StoreError;

use crate::call_log::{self, Call};

/// Maximum and default number of changes in a page. Each may have two documents of 64 KiB.
const MAX_PAGE: i64 = 50;

/// Returns the activity that a call changes, as JSON; empty for other subjects, and if the ledger does not answer.
pub async fn load_activity(endpoint: Admin, id: &str) -> String {
    use Admin::{Close, DeleteActivity, Pause, Publish, PutActivity, Rebuild, Restock, Resume, RotateStartKey};
    if !matches!(
        endpoint,
        PutActivity | DeleteActivity | Publish | Pause | Resume | Close | RotateStartKey | Restock | Rebuild
    ) {
        return String::new();
    }
    let Ok(id) = domain::ids::ActivityId::parse(id) else { return String::new() };
    let found = activities::load(&SpinLedger::open().await, &id).await.ok().flatten();
    found.and_then(|found| serde_json::to_string(&found).ok()).unwrap_or_default()
}

/// Records a call that changed something, or may have: one that failed, and one that was refused although the activity
/// `id` is another now than `before`, which [`load_activity`] returned. The response does not depend on it: the call is
/// made, and logged.
pub async fn record(call: &Call<'_>, before: String, id: &str, result: &Result<Response, ApiError>) {
    let Call { request, operator, endpoint, subject } = *call;
    let after = match result {
        Ok(response) => without_reason(without_invited(String::from_utf8_lossy(&response.body).into_owned()).await),
        Err(error) => {
            let code = match error {
                ApiError::Problem(problem) => Some(problem.code.as_str()),
                _ => None,
            };
            let activity = load_activity(endpoint, id).await;
            if code.is_some() && (activity == before || before.is_empty()) {
                return;
            }
            let activity = serde_json::from_str::<Value>(&without_invited(activity).await).ok();
            json!({ "refused": code, "activity_after_the_call": activity }).to_string()
        }
    };
    let change = OperatorChange {
        id: 0,
        changed_at: clock::now(),
        operator: operator.name.clone(),
        action: format!("{} {}", request.method, endpoint.pattern()),
        subject: subject.to_owned(),
        before: without_invited(before).await,
        after,
        request_id: request.request_id.clone(),
    };
    let recorded: Result<(), StoreError> = operator_changes::record(&SpinLedger::open().await, &change).await;
    if let Err(error) = recorded {
        let fields = [("because", error.to_string().into()), ("request_id", request.request_id.as_str().into())];
        log::error("a change is missing from the operator changes", &fields);
    }
}

/// Replaces the list of users who may take part in an activity by their number and a keyed hash: changes are kept for
/// ever.
async fn without_invited(document: String) -> String {
    let Ok(mut activity) = serde_json::from_str::<Value>(&document) else { return document };
    let Some(invited) = activity.pointer_mut("/eligibility/allow") else { return document };
    let number = invited.as_array().map_or(0, Vec::len);
    if number > 0 {
        *invited = format!("{number} users, {}", call_log::hash(&invited.to_string()).await).into();
        return activity.to_string();
    }
    document
}

/// Leaves out the reason of a ban: it may say anything about a person, and is kept with the ban.
fn without_reason(document: String) -> String {
    let Ok(Value::Object(mut members)) = serde_json::from_str(&document) else { return document };
    members.remove("reason").map_or(document, |_| Value::Object(members).to_string())
}

/// Handles `GET …/changes?before=&limit=`: newest first; `before` is the `id` of the last change of the page before.
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let number = |name: &str, maximum: i64| {
        let Some(text) = request.query_param(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = text.parse::<i64>().ok().filter(|number| (1..=maximum).contains(number));
        let detail = format!("must be 1 to {maximum}");
        number.map(Some).ok_or_else(|| Problem::invalid(vec![FieldError::new(format!("?{name}"), detail)]))
    };
    let (before, limit) = (number("before", i64::MAX)?, number("limit", MAX_PAGE)?);
    let changes = operator_changes::list(&SpinLedger::open().await, before, limit.unwrap_or(MAX_PAGE)).await?;
    Ok(Response::json(200, &changes))
}
