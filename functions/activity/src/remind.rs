//! `POST /api/activities/:activity/reminders`: counts a visitor who wants to be reminded of the start.

use domain::{ids::ActivityId, request::Headers as _};
use platform::{
    activity_cache, clock,
    http::{ApiError, Request, Response, not_found},
    redis::SpinRedis,
    request_address,
};
use workflows::hot::reminders;

/// Returns `204`, also after the start: such a visitor is not counted. The page makes the reminder itself.
pub async fn post(request: &Request, activity: &str) -> Result<Response, ApiError> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let cached_gate = activity_cache::gate(&activity).await?;
    if cached_gate.redis_time(clock::now()) < cached_gate.gate.starts_at {
        // Thousands of phones share the address of a carrier.
        let browser = request.headers.values("user-agent").pop().unwrap_or_default();
        reminders::count(&SpinRedis, &activity, &request_address::address(request).await?, &browser).await?;
    }
    Ok(Response::empty(204))
}
