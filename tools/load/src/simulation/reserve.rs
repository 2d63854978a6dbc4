//! Makes one reservation with one ticket, with retries until it has an outcome.

use std::time::{Duration, Instant};

use super::{context::RunContext, gate};
use crate::{
    app::{Backoff, is_retryable},
    http::{RequestError, Response},
    meter::Step,
    wire::Order,
};

/// Delay after `not_open` or a stale start key: the gate takes up to a second to reach every instance.
const GATE_RETRY_DELAY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub struct Attempt {
    pub outcome: Outcome,
    /// When the first try was sent whose outcome is unknown: its response was lost, or said nothing of it
    /// ([`Response::has_uncertain_outcome`]). The app may then have an order that the buyer does not know of.
    pub uncertain_since: Option<Instant>,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Accepted(Accepted),
    /// Refused for good, with the label of the response.
    Refused(String),
    /// Out of tries or time, with the label of the last response.
    GaveUp(String),
}

/// A `202`.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The app had no request for the order before.
    pub requested_at: Instant,
    pub at: Instant,
    pub order: Order,
}

enum NextStep {
    Finish(Outcome),
    Retry(Duration, String),
}

/// Reserves. The first request is due at `due`; its latency counts from there.
pub async fn reserve(run: &RunContext, index: usize, due: Instant) -> Attempt {
    let visit = &run.visits[index];
    let deadline = due + run.options.retry_timeout();
    let mut gate_view = run.gate.clone();
    let mut backoff = Backoff::default();
    let mut due = due;
    let mut uncertain_since = None;
    let mut responses = 0;
    let mut last_label = "no start key".to_owned();
    let mut quantity = visit.quantity;
    loop {
        let Some(start_key) = gate::wait_for_start_key(&mut gate_view, deadline).await else {
            return Attempt { outcome: Outcome::GaveUp(format!("gate shut, {last_label}")), uncertain_since };
        };
        let ticket = &run.tickets[index].ticket;
        let call = run.activity.reservation(visit.sku, quantity, ticket, &start_key);
        let asked_at = Instant::now();
        let outcome = run.app.send(Step::Reserve, due, &call).await;
        let next_step = match outcome {
            Ok(response) => {
                if response.has_uncertain_outcome() {
                    uncertain_since.get_or_insert(response.sent_at);
                }
                let requested_at = uncertain_since.unwrap_or(response.sent_at);
                responses += 1;
                let is_sold_out = response.code().as_deref() == Some("sold_out");
                if is_sold_out && quantity > 1 && run.options.line.is_on() && uncertain_since.is_none() {
                    quantity = 1; // One unit can be waited for.
                    NextStep::Retry(Duration::ZERO, response.label())
                } else {
                    next_step(&response, requested_at, &mut backoff, responses >= run.options.tries)
                }
            }
            Err(error) => {
                if error != RequestError::ConnectFailed {
                    uncertain_since.get_or_insert(asked_at);
                }
                NextStep::Retry(backoff.next_delay(), error.to_string())
            }
        };
        match next_step {
            NextStep::Finish(outcome) => return Attempt { outcome, uncertain_since },
            NextStep::Retry(delay, label) => {
                due = Instant::now() + delay;
                if due >= deadline {
                    return Attempt { outcome: Outcome::GaveUp(label), uncertain_since };
                }
                last_label = label;
                tokio::time::sleep(delay).await;
            }
        }
    }
}

fn next_step(response: &Response, requested_at: Instant, backoff: &mut Backoff, last_try: bool) -> NextStep {
    if response.status == 202 {
        return match response.parse::<Order>() {
            Ok(order) => NextStep::Finish(Outcome::Accepted(Accepted { requested_at, at: Instant::now(), order })),
            Err(error) => NextStep::Finish(Outcome::Refused(format!("202 without an order: {error}"))),
        };
    }
    let code = response.code();
    let delay = match code.as_deref() {
        Some("not_open" | "start_key_invalid") => GATE_RETRY_DELAY.mul_f64(1.0 + fastrand::f64()),
        _ if is_retryable(response.status) => backoff.delay_after(response),
        _ => return NextStep::Finish(Outcome::Refused(response.label())),
    };
    if last_try {
        NextStep::Finish(Outcome::GaveUp(response.label()))
    } else {
        NextStep::Retry(delay, response.label())
    }
}
