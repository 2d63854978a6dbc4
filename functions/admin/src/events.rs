//! Events out: what is waiting or was given up, and putting it back (E7).

use domain::{body, ids::OrderNo};
use platform::{
    config,
    http::{Answer, Call, Failure},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde::Deserialize;
use serde_json::json;
use workflows::{
    ledger::events::{self, Endpoint},
    queue::outbox::PACE,
};

/// `GET …/events`: the endpoint, how many events wait, and those that were given up.
pub async fn list() -> Result<Answer, Failure> {
    let (ledger, url) = (SpinLedger::open().await, config::get("events_url").await);
    let document = json!({
        "endpoint": events::endpoint(&ledger, &url, PACE).await?,
        "waiting": events::waiting(&ledger).await?,
        "failed": events::failed(&ledger).await?,
    });
    Ok(Answer::json(200, &document))
}

#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    order_no: Option<OrderNo>,
}

/// `POST …/events/replay`: sends the events of one order again, or all that were given up.
pub async fn replay(call: &Call) -> Result<Answer, Failure> {
    let which: Which = if call.body.is_empty() { Which { order_no: None } } else { body::parse(&call.body)? };
    let now = SpinRedis.now().await?;
    let replayed = events::replay(&SpinLedger::open().await, which.order_no.as_ref(), now).await?;
    Ok(Answer::json(202, &json!({ "replayed": replayed })))
}

/// `POST …/events/enable`: the endpoint that said that it is gone, or that it is busy, is well again.
pub async fn enable() -> Result<Answer, Failure> {
    let (ledger, url) = (SpinLedger::open().await, config::get("events_url").await);
    let well = Endpoint { disabled_at: None, rest_until: domain::time::Millis(0), pace: PACE };
    events::set_endpoint(&ledger, &url, &well).await?;
    Ok(Answer::json(200, &well))
}
