//! Shows and resends the events that are sent to the shop (E7).

use domain::{
    api::operators::{EventsReplayed, ReplayEvents},
    http::{body, problem::Problem},
    ids::OrderNo,
};
use operations::commands::documents::Events;
use orders::{
    event_delivery::MAX_CONCURRENCY,
    ledger::events::{self, EventEndpoint},
};
use platform::{
    config,
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};

use crate::call::Outcome;

/// Handles `GET …/events`: the endpoint's state, the number of waiting events, and the events that failed for good.
pub async fn list() -> Result<Response, ApiError> {
    let (ledger, url) = (SpinLedger::open().await, config::get("events_url").await);
    let document = Events {
        endpoint: events::load_endpoint(&ledger, &url, MAX_CONCURRENCY).await?,
        waiting: events::count_waiting(&ledger).await?,
        failed: events::list_failed(&ledger).await?,
    };
    Ok(Response::json(200, &document))
}

/// Handles `POST …/events/replay`: sends the events of one order again, or without an order all failed ones.
pub async fn resend(request: &Request) -> Result<Outcome, ApiError> {
    let (order_no, now) = (named_order(request)?, SpinRedis.now().await?);
    let (replayed, more) = events::resend(&SpinLedger::open().await, order_no.as_ref(), now).await?;
    Ok(Outcome::changed(202, &EventsReplayed { replayed, more }))
}

/// Returns the order whose events are to be sent again, if the body names one.
pub fn named_order(request: &Request) -> Result<Option<OrderNo>, Problem> {
    if request.body.is_empty() {
        return Ok(None);
    }
    body::parse(&request.body).map(|ReplayEvents { order_no }| order_no)
}

/// Handles `POST …/events/enable`: resumes delivery at once to an endpoint that was disabled after a `410`, or paused
/// because it was busy or did not respond.
pub async fn enable() -> Result<Outcome, ApiError> {
    let (ledger, url) = (SpinLedger::open().await, config::get("events_url").await);
    let healthy = EventEndpoint { disabled_at: None, rest_until: domain::time::Millis(0), pace: MAX_CONCURRENCY };
    events::save_endpoint(&ledger, &url, &healthy).await?;
    Ok(Outcome::changed(200, &healthy))
}
