//! Shows and resends the events that are sent to the shop (E7).

use domain::{
    api::{
        Page,
        operators::{EventsReplayed, ReplayEvents},
    },
    event::event_types,
    http::{
        body,
        problem::{Code, Problem},
    },
};
use operations::commands::documents::Events;
use orders::{
    event_delivery::MAX_CONCURRENCY,
    ledger::events::{self, EventEndpoint, EventFilter, EventRecord, EventState},
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

/// Handles `GET …/events?state=&type=&before=&limit=`: the endpoint's state, the number of waiting events, and events,
/// newest first: those that failed for good, unless `state` says otherwise.
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let mut errors = Vec::new();
    let parse_state = |text: &str| EventState::parse(text).ok_or("must be waiting, delivered or failed");
    let parse_type = |text: &str| match event_types().iter().any(|known| known == text) {
        true => Ok(text.to_owned()),
        false => Err("must be a type of events, such as order.paid"),
    };
    let filter = EventFilter {
        state: paging::parse(request, "state", parse_state, &mut errors).unwrap_or_default(),
        r#type: paging::parse(request, "type", parse_type, &mut errors),
    };
    if !errors.is_empty() {
        return Err(Problem::invalid(errors).into());
    }
    let before = paging::before(request).unwrap_or_default();
    let limit = paging::limit(request, MAX_PAGE)?;
    let (ledger, url) = (SpinLedger::open().await, settings::load(settings::EVENTS_URL).await?);
    let document = Events {
        endpoint: events::load_endpoint(&ledger, &url, MAX_CONCURRENCY).await?,
        waiting: events::count_waiting(&ledger).await?,
        page: Page::new(events::list(&ledger, &filter, &before, limit + 1).await?, limit, EventRecord::cursor),
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

/// Handles `POST …/events/test`: the next sweep sends an event of the type `test`, once. While the endpoint rests, it would
/// wait.
pub async fn test() -> Result<Outcome, ApiError> {
    let refuse = |detail: &str| Err(Problem::new(Code::StateConflict, detail).into());
    let url = settings::load(settings::EVENTS_URL).await?;
    if url.is_empty() {
        return refuse("The variable events_url is empty: no events are sent.");
    }
    let ledger = SpinLedger::open().await;
    let now = clock::now(&ledger).await?;
    let endpoint = events::load_endpoint(&ledger, &url, MAX_CONCURRENCY).await?;
    if endpoint.disabled_at.is_some() || endpoint.rest_until > now {
        return refuse("Events rest, because of the endpoint's last answer: enable them first.");
    }
    Ok(Outcome::changed(202, &events::add_test(&ledger, now).await?))
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
