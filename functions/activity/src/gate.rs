//! The gate (A4): the same for everybody, so that a cache in front answers the crowd and asks once a second.

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

/// `gate.json`.
pub async fn json(activity: &str) -> Result<Response, ApiError> {
    Ok(Response::json(200, &document(activity).await?).header("cache-control", CACHE_CONTROL))
}

/// `gate.js`: the same as a script that a page can include.
pub async fn script(activity: &str) -> Result<Response, ApiError> {
    let gate = serde_json::to_string(&document(activity).await?).unwrap_or_default();
    // `</script>` cannot end a script early: no `<` is left in it.
    let script = format!("globalThis.stampedeGate = {};\n", gate.replace('<', "\\u003c"));
    Ok(Response::text(200, "text/javascript; charset=utf-8", script).header("cache-control", CACHE_CONTROL))
}

async fn document(activity: &str) -> Result<GateDocument, ApiError> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let snapshot = activity_cache::gate(&activity).await?;
    // Redis's clock, carried on by ours since it was read.
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
