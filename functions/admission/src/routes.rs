//! Which request is answered where.

use domain::ids::ActivityId;
use platform::http::{Answer, Call, Failure, method_not_allowed, not_found};
use spin_sdk::http::Method;

use crate::{challenge, ticket};

/// Finds the answer.
pub async fn route(call: &Call) -> Result<Answer, Failure> {
    let ["api", "activities", activity, what] = call.segments()[..] else { return Err(not_found("No such route.")) };
    if call.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    match what {
        "challenge" => challenge::post(call, activity).await,
        "ticket" => ticket::post(call, activity).await,
        _ => Err(not_found("No such route.")),
    }
}
