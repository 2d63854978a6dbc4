//! The gate (A4): the same for everybody, so that a cache in front answers the crowd and asks once a second.

use domain::{
    activity::Phase,
    gate::{self, GateDocument},
    ids::ActivityId,
};
use platform::{
    activity_cache, clock,
    http::{Answer, Failure, not_found},
};

const CACHE: &str = "public, max-age=0, s-maxage=1";

/// `gate.json`.
pub async fn json(activity: &str) -> Result<Answer, Failure> {
    Ok(Answer::json(200, &document(activity).await?).header("cache-control", CACHE))
}

/// `gate.js`: the same as a script that a page can include.
pub async fn script(activity: &str) -> Result<Answer, Failure> {
    let gate = serde_json::to_string(&document(activity).await?).unwrap_or_default();
    // `</script>` cannot end a script early: no `<` is left in it.
    let script = format!("globalThis.stampedeGate = {};\n", gate.replace('<', "\\u003c"));
    Ok(Answer::text(200, "text/javascript; charset=utf-8", script).header("cache-control", CACHE))
}

async fn document(activity: &str) -> Result<GateDocument, Failure> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let read = activity_cache::glance(&activity).await?;
    // Redis's clock, carried on by ours since it was read.
    let now = activity_cache::server_time(&read, clock::now());
    let phase = read.gate.phase(now);
    Ok(GateDocument {
        phase,
        server_time: now,
        starts_at: read.gate.starts_at,
        ends_at: read.gate.ends_at,
        jitter_ms: gate::jitter_ms(read.visitors, read.units()),
        sold_out: read.skus.iter().filter(|sku| sku.left == Some(0)).map(|sku| sku.sku.clone()).collect(),
        start_key: (phase == Phase::Open && !read.gate.shed).then(|| read.gate.start_key.clone()),
    })
}
