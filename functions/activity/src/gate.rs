//! Serves the gate of an activity as JSON and as a script (A4).
//!
//! The response is the same for every client, so a CDN can serve it and ask the origin once a second.

use domain::{
    activity::Phase,
    gate::{self, GateDocument},
    ids::ActivityId,
};
use platform::{
    activity_cache, clock,
    http::{ApiError, Response, not_found},
};

const CACHE_CONTROL: &str = "public, max-age=0, s-maxage=1";

/// Handles `GET /api/activities/:activity/gate.json`.
pub async fn json(activity: &str) -> Result<Response, ApiError> {
    Ok(Response::json(200, &document(activity).await?).header("cache-control", CACHE_CONTROL))
}

/// Handles `GET /api/activities/:activity/gate.js`: the same document as a script that a page can include.
pub async fn script(activity: &str) -> Result<Response, ApiError> {
    let gate = serde_json::to_string(&document(activity).await?).unwrap_or_default();
    // `<` is escaped, so that a value that contains `</script>` cannot end an inline script.
    let script = format!("globalThis.stampedeGate = {};\n", gate.replace('<', "\\u003c"));
    Ok(Response::text(200, "text/javascript; charset=utf-8", script).header("cache-control", CACHE_CONTROL))
}

async fn document(activity: &str) -> Result<GateDocument, ApiError> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let snapshot = activity_cache::gate(&activity).await?;
    // Redis's time, plus what has passed on the instance's clock since it was read.
    let now = activity_cache::server_time(&snapshot, clock::now());
    let phase = snapshot.gate.phase(now);
    Ok(GateDocument {
        phase,
        server_time: now,
        starts_at: snapshot.gate.starts_at,
        ends_at: snapshot.gate.ends_at,
        jitter_ms: gate::jitter_ms(snapshot.visitors, snapshot.total_units()),
        sold_out: snapshot.skus.iter().filter(|sku| sku.left == Some(0)).map(|sku| sku.sku.clone()).collect(),
        start_key: (phase == Phase::Open && !snapshot.gate.shed).then(|| snapshot.gate.start_key.clone()),
    })
}
