//! Delivery of events to the shop's endpoint (E7): claims due events, sends them, and records the results.
//!
//! Events are delivered at least once, and in order for each order and for each activity. A crash at any point here
//! leaves an event that is claimed again a minute later and sent under the same id.

use domain::{
    event::{EventKey, retry_delay_ms},
    time::Millis,
};
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

/// How long an endpoint that answers that it is gone is left alone, in milliseconds: that may be a mistake of a proxy.
const GONE_PAUSE_MS: i64 = 3_600_000;

/// How many such answers in a row disable it.
const MAX_GONE: i64 = 4;

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
    /// What an answer that the endpoint is gone (410) means for operators.
    pub fault: Option<&'static str>,
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
    let next = adjust_endpoint(endpoint, &results, now);
    let mut report = DeliveryReport::default();
    let attempts: Vec<_> = claimed
        .iter()
        .zip(&results)
        .map(|(claimed, result)| {
            let attempt = evaluate(claimed, result, &next, now);
            if attempt == DeliveryAttempt::Delivered {
                report.delivered += 1
            } else {
                report.failed += 1
            }
            (&claimed.event, attempt, result.as_ref().map_or(0, |response| response.status))
        })
        .collect();
    events::record_attempts(sql, &attempts).await?;
    // The next event about what a delivered one was about may be due now.
    report.more = report.delivered > 0 || claimed.len() as i64 == endpoint.pace;
    if next != endpoint {
        events::save_endpoint(sql, target.url, &next).await?;
        report.fault = next.fault().filter(|_| next.gone > endpoint.gone);
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

fn evaluate(claimed: &ClaimedEvent, result: &SendResult, next: &EventEndpoint, now: Millis) -> DeliveryAttempt {
    let is_test = matches!(claimed.event.key, EventKey::Test(_));
    let error = match result {
        Ok(response) if response.is_success() => return DeliveryAttempt::Delivered,
        // The endpoint wants no more events, including this one.
        Ok(response) if response.status == 410 && next.disabled_at.is_some() => {
            return DeliveryAttempt::Failed("410: the endpoint is gone".to_owned());
        }
        Ok(response) if response.status == 410 && next.gone > 0 && !is_test => {
            return DeliveryAttempt::RetryAt(next.rest_until, "410: the endpoint is gone".to_owned());
        }
        Ok(response) => format!("the endpoint answered {}", response.status),
        Err(no_response) => no_response.to_string(),
    };
    let Some(delay_ms) = retry_delay_ms(claimed.attempt).filter(|_| !is_test) else {
        return DeliveryAttempt::Failed(error);
    };
    let requested_ms = result.as_ref().ok().and_then(|response| response.retry_after_ms(now)).unwrap_or_default();
    DeliveryAttempt::RetryAt(now.plus(delay_ms.max(requested_ms.min(MAX_PAUSE_MS))), error)
}

/// Adjusts the state of the endpoint to the responses: paused for an hour after a 410, and disabled after the last of several
/// in a row; paused and with half the pace when it is busy or does not respond, with twice the pace after a full round of
/// successes. An endpoint that accepts another event is not gone.
fn adjust_endpoint(endpoint: EventEndpoint, results: &[SendResult], now: Millis) -> EventEndpoint {
    let responses: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    let is_alive = responses.iter().any(|response| response.is_success());
    if !is_alive && responses.iter().any(|response| response.status == 410) {
        let gone = endpoint.gone + 1;
        let disabled_at = (gone >= MAX_GONE).then_some(now);
        return EventEndpoint { disabled_at, gone, rest_until: now.plus(GONE_PAUSE_MS), pace: 1 };
    }
    let gone = if responses.is_empty() { endpoint.gone } else { 0 };
    let endpoint = EventEndpoint { gone, ..endpoint };
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

    #[test]
    fn a_busy_endpoint_is_paused_and_its_concurrency_halved() {
        for status in [429, 502, 504] {
            let next = adjust_endpoint(EventEndpoint::healthy(16), &[response(200, ""), response(status, "120")], NOW);
            assert_eq!((next.rest_until, next.pace), (NOW.plus(120_000), 8), "{status}");
            assert_eq!(
                adjust_endpoint(EventEndpoint::healthy(1), &[response(status, "")], NOW).rest_until,
                NOW.plus(BUSY_PAUSE_MS)
            );
        }
        // An error of one event says nothing of others.
        assert_eq!(
            adjust_endpoint(EventEndpoint::healthy(16), &[response(500, "120")], NOW),
            EventEndpoint::healthy(16)
        );
    }

    #[test]
    fn an_endpoint_that_answers_something_else_meanwhile_is_not_gone() {
        let gone = adjust_endpoint(EventEndpoint::healthy(16), &[response(410, ""), response(500, "")], NOW);
        assert_eq!((gone.gone, gone.rest_until, gone.disabled_at), (1, NOW.plus(GONE_PAUSE_MS), None));
        let silent = adjust_endpoint(gone, &[Err(NoResponse("timeout".to_owned()))], NOW);
        assert_eq!(silent.gone, 1);
        for others in [&[response(500, "")][..], &[response(410, ""), response(204, "")]] {
            assert_eq!(adjust_endpoint(gone, others, NOW).gone, 0, "{others:?}");
        }
    }

    #[test]
    fn an_unreachable_endpoint_is_paused() {
        let no_response = || Err(NoResponse("timeout".to_owned()));
        let silent = adjust_endpoint(EventEndpoint::healthy(16), &[no_response(), no_response()], NOW);
        assert_eq!(silent.rest_until, NOW.plus(UNREACHABLE_PAUSE_MS));
        assert_eq!(
            adjust_endpoint(EventEndpoint::healthy(16), &[no_response(), response(200, "")], NOW),
            EventEndpoint::healthy(16)
        );
        assert_eq!(
            adjust_endpoint(EventEndpoint::healthy(16), &[], NOW),
            EventEndpoint::healthy(16),
            "nothing was sent"
        );
    }

    #[test]
    fn a_healthy_endpoint_gets_its_concurrency_doubled() {
        assert_eq!(adjust_endpoint(EventEndpoint::healthy(2), &[response(200, ""), response(204, "")], NOW).pace, 4);
        assert_eq!(adjust_endpoint(EventEndpoint::healthy(2), &[response(200, "")], NOW).pace, 2);
        assert_eq!(adjust_endpoint(EventEndpoint::healthy(1), &[response(500, "")], NOW).pace, 1);
    }
}
