//! Shows and resends the events that are sent to the shop (E7).

use domain::{
    api::{
        Page,
        operators::{EventsReplayed, ReplayEvents},
    },
    http::body,
};
use operations::commands::documents::Events;
use orders::{
    event_delivery::MAX_CONCURRENCY,
    ledger::events::{self, EventEndpoint, EventRecord},
};
use platform::{
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    paging, settings,
};
use stores::ledger::clock;

use crate::call::Outcome;

/// Maximum and default number of events in a page.
const MAX_PAGE: i64 = 200;

/// Handles `GET …/events?before=&limit=`: the endpoint's state, the number of waiting events, and the events that failed for
/// good, newest first.
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let before = paging::before(request).unwrap_or_default();
    let limit = paging::limit(request, MAX_PAGE)?;
    let (ledger, url) = (SpinLedger::open().await, settings::load(settings::EVENTS_URL).await?);
    let document = Events {
        endpoint: events::load_endpoint(&ledger, &url, MAX_CONCURRENCY).await?,
        waiting: events::count_waiting(&ledger).await?,
        failed: Page::new(events::list_failed(&ledger, &before, limit + 1).await?, limit, EventRecord::cursor),
    };
    Ok(Response::json(200, &document))
}

/// Handles `POST …/events/replay`: sends the events of one order again, or all failed ones.
pub async fn resend(request: &Request) -> Result<Outcome, ApiError> {
    let body = body::parse_strict(&request.body, ReplayEvents::validate)?;
    let ledger = SpinLedger::open().await;
    let now = clock::now(&ledger).await?;
    let (replayed, more) = events::resend(&ledger, body.order_no.as_ref(), now).await?;
    Ok(Outcome::changed(202, &EventsReplayed { replayed, more }))
}

/// Handles `POST …/events/enable`: resumes delivery at once to an endpoint that was disabled after a `410`, or paused
/// because it was busy or did not respond.
pub async fn enable() -> Result<Outcome, ApiError> {
    let (ledger, url) = (SpinLedger::open().await, settings::load(settings::EVENTS_URL).await?);
    let healthy = EventEndpoint::healthy(MAX_CONCURRENCY);
    let is_changed = events::load_endpoint(&ledger, &url, MAX_CONCURRENCY).await? != healthy;
    events::save_endpoint(&ledger, &url, &healthy).await?;
    Ok(Outcome::changed(200, &healthy).only_if(is_changed))
}
