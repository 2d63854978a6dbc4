//! Events out: what is waiting or was given up, and putting it back (E7).

use domain::{body, ids::OrderNo};
use platform::{
    config,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde::Deserialize;
use serde_json::json;
use workflows::{
    ledger::events::{self, Endpoint},
    queue::outbox::MAX_CONCURRENCY,
};

/// `GET …/events`: the endpoint, how many events wait, and those that were given up.
pub async fn list() -> Result<Response, ApiError> {
    let (ledger, url) = (SpinLedger::open().await, config::get("events_url").await);
    let document = json!({
        "endpoint": events::load_endpoint(&ledger, &url, MAX_CONCURRENCY).await?,
        "waiting": events::count_waiting(&ledger).await?,
        "failed": events::list_failed(&ledger).await?,
    });
    Ok(Response::json(200, &document))
}

#[derive(Deserialize)]
struct ReplayBody {
    #[serde(default)]
    order_no: Option<OrderNo>,
}

/// `POST …/events/replay`: sends the events of one order again, or all that were given up.
pub async fn replay(request: &Request) -> Result<Response, ApiError> {
    let body: ReplayBody =
        if request.body.is_empty() { ReplayBody { order_no: None } } else { body::parse(&request.body)? };
    let now = SpinRedis.now().await?;
    let replayed = events::replay(&SpinLedger::open().await, body.order_no.as_ref(), now).await?;
    Ok(Response::json(202, &json!({ "replayed": replayed })))
}

/// `POST …/events/enable`: the endpoint that said that it is gone, or that it is busy, is well again.
pub async fn enable() -> Result<Response, ApiError> {
    let (ledger, url) = (SpinLedger::open().await, config::get("events_url").await);
    let healthy = Endpoint { disabled_at: None, rest_until: domain::time::Millis(0), pace: MAX_CONCURRENCY };
    events::save_endpoint(&ledger, &url, &healthy).await?;
    Ok(Response::json(200, &healthy))
}
