//! Serves the gate of an activity as JSON and as a script (A4).
//!
//! The response is the same for every client, so a CDN can serve it and ask the origin once a second.

use domain::{gate::GateDocument, ids::ActivityId};
use platform::{
    activity_cache, clock,
    http::{ApiError, Response, not_found},
};
use sale::visitors::gate_script;

/// Handles `GET /api/activities/:activity/gate.json`.
pub async fn json(activity: &str) -> Result<Response, ApiError> {
    Ok(Response::json(200, &document(activity).await?))
}

/// Handles `GET /api/activities/:activity/gate.js`: the same document as a script that a page can include.
pub async fn script(activity: &str) -> Result<Response, ApiError> {
    let script = gate_script(&document(activity).await?);
    Ok(Response::with_body(200, "text/javascript; charset=utf-8", script))
}

async fn document(activity: &str) -> Result<GateDocument, ApiError> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let cached_gate = activity_cache::gate(&activity).await?;
    // Redis's time, plus what has passed on the instance's clock since it was read.
    Ok(cached_gate.snapshot.document(cached_gate.redis_time(clock::now())))
}
