//! Delivery of events to the shop's endpoint (E7): claims due events, sends them, and records the results.
//!
//! Events are delivered at least once, and in order for each order and for each activity. A crash at any point here
//! leaves an event that is claimed again a minute later and sent under the same id.

use domain::{event::retry_delay_ms, time::Millis};
use futures::future::join_all;
use stores::{
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ports::{Sql, StoreError},
};

use crate::ledger::events::{self, ClaimedEvent, DeliveryAttempt, EventEndpoint};

/// How long the endpoint has to respond, in milliseconds.
pub const TIMEOUT_MS: i64 = 15_000;

/// Events in flight at the same time, at most.
pub const MAX_CONCURRENCY: i64 = 16;

/// Pause for an endpoint that is busy and does not say for how long, in milliseconds.
const BUSY_PAUSE_MS: i64 = 30_000;

/// Pause for an endpoint that responds to nothing, in milliseconds.
const UNREACHABLE_PAUSE_MS: i64 = 10_000;

/// The longest pause that an endpoint may ask for, in milliseconds.
const MAX_PAUSE_MS: i64 = 24 * 3_600 * 1_000;

/// Where events are sent, and what signs them.
#[derive(Debug, Clone, Copy)]
pub struct WebhookTarget<'a> {
    /// The URL of the shop's endpoint.
    pub url: &'a str,
    /// `whsec_` secrets, separated by spaces.
    pub secrets: &'a str,
}

/// What a round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Events that the endpoint accepted.
    pub delivered: usize,
    /// Attempts that failed.
    pub failed: usize,
    /// Whether another round may find due events.
    pub more: bool,
}

/// Sends one round of due events, as many at the same time as the endpoint accepts.
///
/// # Errors
/// See [`ledger`](crate::ledger). Events whose result is not recorded are sent again.
pub async fn deliver_due<W: HttpClient, S: Sql>(
    http: &W,
    sql: &S,
    target: WebhookTarget<'_>,
    clock: impl Fn() -> Millis,
) -> Result<DeliveryReport, StoreError> {
    let endpoint = events::load_endpoint(sql, target.url, MAX_CONCURRENCY).await?;
    if endpoint.disabled_at.is_some() || endpoint.rest_until > clock() {
        return Ok(DeliveryReport::default());
    }
    let claimed = events::claim_due(sql, clock(), endpoint.pace).await?;
    let requests = claimed.iter().map(|event| send(http, target, event, clock()));
    let results = join_all(requests).await;
    let now = clock();
    let mut report = DeliveryReport { more: claimed.len() as i64 == endpoint.pace, ..DeliveryReport::default() };
    let attempts: Vec<_> = claimed
        .iter()
        .zip(&results)
        .map(|(claimed, result)| {
            let attempt = evaluate(claimed, result, now);
            if attempt == DeliveryAttempt::Delivered {
                report.delivered += 1
            } else {
                report.failed += 1
            }
            (&claimed.event, attempt)
        })
        .collect();
    events::record_attempts(sql, &attempts).await?;
    let next = adjust_endpoint(endpoint, &results, now);
    if next != endpoint {
        events::save_endpoint(sql, target.url, &next).await?;
        report.more &= next.disabled_at.is_none() && next.rest_until <= now;
    }
    Ok(report)
}

/// The response to one attempt, or why there was none.
type SendResult = Result<HttpResponse, NoResponse>;

async fn send<W: HttpClient>(http: &W, target: WebhookTarget<'_>, claimed: &ClaimedEvent, now: Millis) -> SendResult {
    let no_valid_secret = || NoResponse("events_secret holds no secret that can sign".to_owned());
    let message = claimed.event.message(target.secrets, now).ok_or_else(no_valid_secret)?;
    let (url, headers) = (target.url.to_owned(), message.headers());
    http.send(HttpRequest { method: "POST", url, headers, body: message.body, timeout_ms: TIMEOUT_MS }).await
}

fn evaluate(claimed: &ClaimedEvent, result: &SendResult, now: Millis) -> DeliveryAttempt {
    let error = match result {
        Ok(response) if response.is_success() => return DeliveryAttempt::Delivered,
        // The endpoint wants no more events, including this one.
        Ok(response) if response.status == 410 => {
            return DeliveryAttempt::Failed("410: the endpoint is gone".to_owned());
        }
        Ok(response) => format!("the endpoint answered {}", response.status),
        Err(no_response) => no_response.to_string(),
    };
    let Some(delay_ms) = retry_delay_ms(claimed.attempt) else { return DeliveryAttempt::Failed(error) };
    let requested_ms = result.as_ref().ok().and_then(|response| response.retry_after_ms(now)).unwrap_or_default();
    DeliveryAttempt::RetryAt(now.plus(delay_ms.max(requested_ms.min(MAX_PAUSE_MS))), error)
}

/// Adjusts the state of the endpoint to the responses: disabled after a 410, paused and with half the pace when it is
/// busy or does not respond, with twice the pace after a full round of successes.
fn adjust_endpoint(endpoint: EventEndpoint, results: &[SendResult], now: Millis) -> EventEndpoint {
    let responses: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    if responses.iter().any(|response| response.status == 410) {
        return EventEndpoint { disabled_at: Some(now), ..endpoint };
    }
    let busy = responses.iter().filter(|response| matches!(response.status, 429 | 502 | 504));
    let pause_ms = busy.map(|response| response.retry_after_ms(now).unwrap_or(BUSY_PAUSE_MS).min(MAX_PAUSE_MS)).max();
    if let Some(pause_ms) = pause_ms {
        return EventEndpoint { rest_until: now.plus(pause_ms), pace: (endpoint.pace / 2).max(1), ..endpoint };
    }
    if responses.is_empty() && !results.is_empty() {
        return EventEndpoint {
            rest_until: now.plus(UNREACHABLE_PAUSE_MS),
            pace: (endpoint.pace / 2).max(1),
            ..endpoint
        };
    }
    let full = responses.len() as i64 == endpoint.pace && responses.iter().all(|response| response.is_success());
    let pace = if full { (endpoint.pace * 2).min(MAX_CONCURRENCY) } else { endpoint.pace };
    EventEndpoint { pace, ..endpoint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn response(status: u16, retry_after: &str) -> SendResult {
        let headers = vec![("retry-after".to_owned(), retry_after.to_owned())];
        Ok(HttpResponse { status, headers, body: Vec::new() })
    }

    fn healthy(pace: i64) -> EventEndpoint {
        EventEndpoint { disabled_at: None, rest_until: Millis(0), pace }
    }

    #[test]
    fn a_busy_endpoint_is_paused_and_its_concurrency_halved() {
        for status in [429, 502, 504] {
            let next = adjust_endpoint(healthy(16), &[response(200, ""), response(status, "120")], NOW);
            assert_eq!((next.rest_until, next.pace), (NOW.plus(120_000), 8), "{status}");
            assert_eq!(adjust_endpoint(healthy(1), &[response(status, "")], NOW).rest_until, NOW.plus(BUSY_PAUSE_MS));
        }
        // An error of one event says nothing of others.
        assert_eq!(adjust_endpoint(healthy(16), &[response(500, "120")], NOW), healthy(16));
    }

    #[test]
    fn an_unreachable_endpoint_is_paused() {
        let no_response = || Err(NoResponse("timeout".to_owned()));
        let silent = adjust_endpoint(healthy(16), &[no_response(), no_response()], NOW);
        assert_eq!(silent.rest_until, NOW.plus(UNREACHABLE_PAUSE_MS));
        assert_eq!(adjust_endpoint(healthy(16), &[no_response(), response(200, "")], NOW), healthy(16));
        assert_eq!(adjust_endpoint(healthy(16), &[], NOW), healthy(16), "nothing was sent");
    }

    #[test]
    fn a_healthy_endpoint_gets_its_concurrency_doubled() {
        assert_eq!(adjust_endpoint(healthy(2), &[response(200, ""), response(204, "")], NOW).pace, 4);
        assert_eq!(adjust_endpoint(healthy(2), &[response(200, "")], NOW).pace, 2);
        assert_eq!(adjust_endpoint(healthy(1), &[response(500, "")], NOW).pace, 1);
    }
}
