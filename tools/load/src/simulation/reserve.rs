//! One reservation, until it has an outcome: one ticket, as many tries as it takes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;

use super::gate;
use super::plan::Visit;
use super::session::Session;
use crate::app::{Backoff, is_later};
use crate::http::{Answer, Call, NoAnswer};
use crate::meter::Step;
use crate::wire::Order;

/// Pause after "not open yet" or an old start key: the gate's news need up to a second to reach every instance.
const GATE_PAUSE: Duration = Duration::from_millis(250);

/// How a reservation ended.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The end.
    pub outcome: Outcome,
    /// Whether an answer was lost on the way: the app may know more than the buyer.
    pub lost: bool,
}

/// The end of a reservation.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// `202`.
    Accepted {
        /// When it had come.
        at: Instant,
        /// The order.
        order_no: String,
    },
    /// Refused for good, with the label of the answer.
    Refused(String),
    /// Told to wait too often, or too late; with the label of the last answer.
    GaveUp(String),
}

#[derive(Serialize)]
struct Body<'a> {
    sku: &'a str,
    quantity: u32,
    ticket: &'a str,
    start_key: &'a str,
}

enum Next {
    End(Outcome),
    Wait(Duration, String),
}

/// Reserves; the first request is due at `due`, and latency counts from there.
pub async fn reserve(session: &Session, index: usize, due: Instant) -> Attempt {
    let visit = &session.visits[index];
    let deadline = due + session.options.patience();
    let mut view = session.gate.clone();
    let mut backoff = Backoff::default();
    let mut due = due;
    let mut lost = false;
    let mut told_to_wait = 0;
    let mut last = "no start key".to_owned();
    loop {
        let Some(start_key) = gate::start_key(&mut view, deadline).await else {
            return Attempt { outcome: Outcome::GaveUp(format!("gate shut, {last}")), lost };
        };
        let call = request(session, visit, &session.passes[index].ticket, &start_key);
        let outcome = session.app.once(Step::Reserve, due, &call).await;
        let next = match outcome {
            Ok(answer) => {
                lost |= matches!(answer.status, 500 | 502 | 504);
                told_to_wait += 1;
                after_answer(&answer, &mut backoff, told_to_wait >= session.options.tries)
            }
            Err(none) => {
                lost |= none != NoAnswer::Refused;
                Next::Wait(backoff.pause(), none.to_string())
            }
        };
        match next {
            Next::End(outcome) => return Attempt { outcome, lost },
            Next::Wait(pause, label) => {
                due = Instant::now() + pause;
                if due >= deadline {
                    return Attempt { outcome: Outcome::GaveUp(label), lost };
                }
                last = label;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn after_answer(answer: &Answer, backoff: &mut Backoff, enough: bool) -> Next {
    if answer.status == 202 {
        return match answer.parse::<Order>() {
            Ok(order) => Next::End(Outcome::Accepted { at: Instant::now(), order_no: order.order_no }),
            Err(error) => Next::End(Outcome::Refused(format!("202 without an order: {error}"))),
        };
    }
    let code = answer.code();
    let pause = match code.as_deref() {
        Some("not_open" | "start_key_invalid") => GATE_PAUSE.mul_f64(1.0 + fastrand::f64()),
        _ if is_later(answer.status) => backoff.after(answer),
        _ => return Next::End(Outcome::Refused(answer.label())),
    };
    if enough { Next::End(Outcome::GaveUp(answer.label())) } else { Next::Wait(pause, answer.label()) }
}

fn request(session: &Session, visit: &Visit, ticket: &str, start_key: &str) -> Call {
    let body = Body { sku: &session.terms.skus[visit.sku], quantity: visit.quantity, ticket, start_key };
    let body = serde_json::to_vec(&body).map(Bytes::from).unwrap_or_default();
    Call { body, ..Call::post(session.terms.path("/orders"), &serde_json::Value::Null) }
}
