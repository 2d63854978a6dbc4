//! Events out (E7): a round takes what is due from the outbox, sends it, and notes how that went.
//!
//! At least once, in order for each order. Dying anywhere here leaves an event that is taken again a minute later,
//! under the same id.

use domain::{
    event::{Message, retry_after_ms},
    time::Millis,
};
use futures::future::join_all;

use crate::{
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ledger::events::{self, Ended, Endpoint, Taken},
    ports::{Sql, StoreError},
};

/// How long an endpoint has to answer, in milliseconds.
pub const TIMEOUT_MS: i64 = 15_000;

/// Events under way at once, to an endpoint that takes them.
pub const PACE: i64 = 16;

/// How long an endpoint is left alone that says that it is busy and not for how long, in milliseconds.
const REST_MS: i64 = 30_000;

/// How long an endpoint is left alone that answers nothing at all, in milliseconds.
const SILENT_MS: i64 = 10_000;

/// The longest rest that an endpoint may ask for, in milliseconds.
const LONGEST_REST_MS: i64 = 24 * 3_600 * 1_000;

/// Where events go, and what signs them.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The shop's endpoint.
    pub url: &'a str,
    /// `whsec_` secrets, separated by spaces.
    pub secrets: &'a str,
}

/// What a round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Events that the endpoint has now.
    pub delivered: usize,
    /// Attempts that failed.
    pub failed: usize,
    /// Whether another round may find something to do.
    pub more: bool,
}

/// One round: what is due, as many at once as the endpoint takes.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn deliver<W: HttpClient, S: Sql>(
    web: &W,
    sql: &S,
    target: Target<'_>,
    clock: impl Fn() -> Millis,
) -> Result<Round, StoreError> {
    let endpoint = events::endpoint(sql, target.url, PACE).await?;
    if endpoint.disabled_at.is_some() || endpoint.rest_until > clock() {
        return Ok(Round::default());
    }
    let taken = events::take(sql, clock(), endpoint.pace).await?;
    let sent = taken.iter().map(|taken| send(web, target, taken, clock()));
    let answers = join_all(sent).await;
    let now = clock();
    let mut round = Round { more: taken.len() as i64 == endpoint.pace, ..Round::default() };
    let ended: Vec<_> = taken
        .iter()
        .zip(&answers)
        .map(|(taken, answer)| {
            let ended = judge(taken, answer, now);
            if ended == Ended::Delivered {
                round.delivered += 1
            } else {
                round.failed += 1
            }
            (&taken.event, ended)
        })
        .collect();
    events::record_attempts(sql, &ended).await?;
    let next = adapt(endpoint, &answers, now);
    if next != endpoint {
        events::set_endpoint(sql, target.url, &next).await?;
        round.more &= next.disabled_at.is_none() && next.rest_until <= now;
    }
    Ok(round)
}

/// What came of one attempt.
type Answer = Result<HttpResponse, NoResponse>;

async fn send<W: HttpClient>(web: &W, target: Target<'_>, taken: &Taken, now: Millis) -> Answer {
    let unsigned = || NoResponse("events_secret holds no secret that can sign".to_owned());
    let Message { id, timestamp, signature, body } = taken.event.message(target.secrets, now).ok_or_else(unsigned)?;
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", "stampede".to_owned()),
        ("webhook-id", id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", signature),
    ];
    web.send(HttpRequest { method: "POST", url: target.url.to_owned(), headers, body, timeout_ms: TIMEOUT_MS }).await
}

fn judge(taken: &Taken, answer: &Answer, now: Millis) -> Ended {
    let error = match answer {
        Ok(answer) if answer.is_success() => return Ended::Delivered,
        // The endpoint wants no more of these, this one included.
        Ok(answer) if answer.status == 410 => return Ended::Failed("410: the endpoint is gone".to_owned()),
        Ok(answer) => format!("the endpoint answered {}", answer.status),
        Err(unanswered) => unanswered.to_string(),
    };
    let Some(wait) = retry_after_ms(taken.attempt) else { return Ended::Failed(error) };
    let asked = answer.as_ref().ok().and_then(|answer| answer.retry_after_ms(now)).unwrap_or_default();
    Ended::Later(now.plus(wait.max(asked.min(LONGEST_REST_MS))), error)
}

/// What the answers say of the endpoint: gone, busy, silent, or well.
fn adapt(endpoint: Endpoint, answers: &[Answer], now: Millis) -> Endpoint {
    let answered: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    if answered.iter().any(|answer| answer.status == 410) {
        return Endpoint { disabled_at: Some(now), ..endpoint };
    }
    let busy = answered.iter().filter(|answer| matches!(answer.status, 429 | 502 | 504));
    let asked = busy.map(|answer| answer.retry_after_ms(now).unwrap_or(REST_MS).min(LONGEST_REST_MS)).max();
    if let Some(rest) = asked {
        return Endpoint { rest_until: now.plus(rest), pace: (endpoint.pace / 2).max(1), ..endpoint };
    }
    if answered.is_empty() && !answers.is_empty() {
        return Endpoint { rest_until: now.plus(SILENT_MS), pace: (endpoint.pace / 2).max(1), ..endpoint };
    }
    let full = answered.len() as i64 == endpoint.pace && answered.iter().all(|answer| answer.is_success());
    let pace = if full { (endpoint.pace * 2).min(PACE) } else { endpoint.pace };
    Endpoint { pace, ..endpoint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn answer(status: u16, retry_after: &str) -> Answer {
        let headers = vec![("retry-after".to_owned(), retry_after.to_owned())];
        Ok(HttpResponse { status, headers, body: Vec::new() })
    }

    fn well(pace: i64) -> Endpoint {
        Endpoint { disabled_at: None, rest_until: Millis(0), pace }
    }

    #[test]
    fn an_endpoint_that_is_gone_is_sent_nothing_more() {
        let next = adapt(well(16), &[answer(200, ""), answer(410, "")], NOW);
        assert_eq!(next.disabled_at, Some(NOW));
    }

    #[test]
    fn a_busy_endpoint_is_left_alone_and_then_sent_less() {
        for status in [429, 502, 504] {
            let next = adapt(well(16), &[answer(200, ""), answer(status, "120")], NOW);
            assert_eq!((next.rest_until, next.pace), (NOW.plus(120_000), 8), "{status}");
            assert_eq!(adapt(well(1), &[answer(status, "")], NOW).rest_until, NOW.plus(REST_MS));
        }
        assert_eq!(
            adapt(well(16), &[answer(500, "120")], NOW),
            well(16),
            "an error of one event says nothing of others"
        );
    }

    #[test]
    fn a_silent_endpoint_is_left_alone_for_a_moment() {
        let silent = || Err(NoResponse("timeout".to_owned()));
        assert_eq!(adapt(well(16), &[silent(), silent()], NOW).rest_until, NOW.plus(SILENT_MS));
        assert_eq!(adapt(well(16), &[silent(), answer(200, "")], NOW), well(16));
        assert_eq!(adapt(well(16), &[], NOW), well(16), "nothing was sent");
    }

    #[test]
    fn an_endpoint_that_is_well_is_sent_more_again() {
        assert_eq!(adapt(well(2), &[answer(200, ""), answer(204, "")], NOW).pace, 4);
        assert_eq!(adapt(well(2), &[answer(200, "")], NOW).pace, 2);
        assert_eq!(adapt(well(1), &[answer(500, "")], NOW).pace, 1);
    }
}
