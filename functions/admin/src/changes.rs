//! Records what operators change, and shows it (G2).

use domain::{
    api::Page,
    http::{problem::Problem, routes::Endpoint as _},
    ids::ActivityId,
};
use operations::ledger::operator_changes::{self, OperatorChange, RecordedActivity};
use platform::{
    clock,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    log, paging, settings,
};
use sale::ledger::activities;
use serde_json::json;

use crate::call::{Call, Outcome};

/// Maximum and default number of changes in a page. Each may have two documents of 64 KiB.
const MAX_PAGE: i64 = 50;

/// Returns the activity that a call is to change, as it is now; `None` also if the ledger does not answer.
pub async fn load_activity(call: &Call<'_>) -> Option<RecordedActivity> {
    if call.request.method.is_safe() || !call.endpoint.pattern().contains(":activity") {
        return None;
    }
    let id = ActivityId::parse(call.params[0]).ok()?;
    let found = activities::load(&SpinLedger::open().await, &id).await.ok()??;
    let secret = settings::find(settings::TICKET_SECRET).await.unwrap_or_default();
    Some(RecordedActivity::new(&found, &secret))
}

/// Records a call that changed something, or may have: one that failed, and one that was refused although the activity
/// is another now than `before`, which [`load_activity`] returned. The response does not depend on it: the call is made,
/// and logged.
pub async fn record(call: &Call<'_>, before: Option<RecordedActivity>, result: &Result<Outcome, ApiError>) {
    let request = call.request;
    let after = match result {
        Ok(Outcome::Changed { after, .. }) => after.clone(),
        Err(error) if !request.method.is_safe() => {
            let activity = load_activity(call).await;
            let code = match error {
                ApiError::Problem(_) if before.is_none() || activity == before => return,
                ApiError::Problem(problem) => Some(problem.code.as_str()),
                _ => None,
            };
            json!({ "refused": code, "activity_after_the_call": activity }).to_string()
        }
        _ => return,
    };
    let change = OperatorChange {
        id: 0,
        changed_at: clock::now(),
        operator: call.operator.name.clone(),
        action: format!("{} {}", request.method, call.endpoint.pattern()),
        subject: call.subject.clone(),
        before: before.and_then(|before| serde_json::to_string(&before).ok()).unwrap_or_default(),
        after,
        request_id: request.request_id.clone(),
    };
    if let Err(error) = operator_changes::record(&SpinLedger::open().await, &change).await {
        let fields = [("because", error.to_string().into()), ("request_id", request.request_id.as_str().into())];
        log::error("a change is missing from the operator changes", &fields);
    }
}

/// Handles `GET …/changes?activity=&before=&limit=`: newest first.
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let mut errors = Vec::new();
    let activity = paging::parse(request, "activity", ActivityId::parse, &mut errors);
    if !errors.is_empty() {
        return Err(Problem::invalid(errors).into());
    }
    let before = paging::number(request, "before", i64::MAX)?;
    let limit = paging::limit(request, MAX_PAGE)?;
    let found = operator_changes::list(&SpinLedger::open().await, activity.as_ref(), before, limit + 1).await?;
    Ok(Response::json(200, &Page::new(found, limit, |change| change.id.to_string())))
}
