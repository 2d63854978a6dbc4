//! Routes the requests of this function.

use domain::ids::ActivityId;
use platform::http::{ApiError, Request, Response, method_not_allowed, not_found};
use spin_sdk::http::Method;

use crate::{challenge, ticket};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let ["api", "activities", activity, action] = request.segments()[..] else {
        return Err(not_found("No such route."));
    };
    if request.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    match action {
        "challenge" => challenge::post(request, activity).await,
        "ticket" => ticket::post(request, activity).await,
        _ => Err(not_found("No such route.")),
    }
}
