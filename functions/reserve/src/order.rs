//! Reserving: everything that CPU and memory can refuse is refused before Redis is asked, once.

use std::time::Duration;

use domain::{
    body,
    ids::{ActivityId, SkuId},
    problem::{Code, FieldError, Problem},
    ticket::TicketError,
};
use platform::{
    abuse, auth, client_address, clock,
    http::{Answer, Call, Failure, method_not_allowed, not_found},
    limits,
    redis::SpinRedis,
    timeout::with_timeout,
};
use serde::Deserialize;
use spin_sdk::http::Method;
use workflows::hot::{
    limits::Policy,
    reserve::{Outcome, Reservation, ReserveReply, reserve},
};

use crate::gate_cache::{self, Decision};

/// How long others wait for one who looks at the gate; then they ask Redis themselves.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
struct Body {
    sku: String,
    quantity: i64,
    ticket: String,
    #[serde(default)]
    start_key: String,
}

/// Answers `202` and the order, or why not.
pub async fn post(call: &Call) -> Result<Answer, Failure> {
    let ["api", "activities", activity, "orders"] = call.segments()[..] else {
        return Err(not_found("No such route."));
    };
    if call.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let body: Body = body::parse(&call.body)?;
    let sku = SkuId::parse(&body.sku).map_err(|e| Problem::invalid(vec![FieldError::new("/sku", e.to_string())]))?;
    if !(1..=1_000_000).contains(&body.quantity) {
        return Err(Problem::invalid(vec![FieldError::new("/quantity", "must be 1 to 1,000,000")]).into());
    }
    let now = clock::now();
    let ip = client_address::address(call).await;
    let ticket = auth::tickets().await?.admit(&body.ticket, &activity, now).map_err(|error| {
        // An old ticket is a mistake, a forged one is not.
        if error == TicketError::Forged {
            abuse::record(&activity, ip.clone());
        }
        Problem::new(Code::TicketInvalid, error.to_string())
    })?;
    let mut request = Reservation {
        order_no: ticket.order_no(),
        user: ticket.user,
        sku,
        quantity: body.quantity,
        start_key: body.start_key,
        ip,
        abused: Vec::new(),
    };
    let looking = loop {
        match gate_cache::decide(&request, clock::now()) {
            Decision::Refuse(code, wait_ms) => return Err(refusal(code, wait_ms, &[]).into()),
            Decision::Ask => break None,
            Decision::Refresh(guard) => break Some(guard),
            // Whoever looks may be kept waiting by Redis: queueing up behind them would add their wait to ours.
            Decision::Wait(seen) => {
                if with_timeout(REFRESH_TIMEOUT, seen).await.is_none() {
                    break None;
                }
            }
        }
    };
    request.abused = abuse::take(&activity);
    let decision = reserve(&SpinRedis, &request, looking.is_some()).await?;
    gate_cache::update(&request, &decision, clock::now());
    drop(looking);
    answer(decision)
}

fn answer(decision: ReserveReply) -> Result<Answer, Failure> {
    let policies = &decision.policies;
    match decision.outcome {
        Outcome::Queued(order) => {
            let location = format!("/api/orders/{}", order.order_no);
            let mut answer = Answer::json(202, &order).header("location", location).header("retry-after", "1");
            for (name, value) in limits::headers(policies) {
                answer = answer.header(name, value);
            }
            Ok(answer)
        }
        Outcome::Refused(code, wait_ms) => Err(refusal(code, wait_ms, policies).into()),
        Outcome::SoldOut(_) => Err(refusal(Code::SoldOut, 0, policies).into()),
    }
}

fn refusal(code: Code, wait_ms: i64, policies: &[Policy]) -> Problem {
    let detail = match code {
        Code::NotReady => "The stock of this sale is not loaded. An operator must publish it.",
        Code::Ended => "The sale has ended.",
        Code::Paused => "The sale is paused. Keep your ticket and try again.",
        Code::NotOpen => "The sale has not started. Ask the gate for its start.",
        Code::Overloaded => "More people are in line than can be served in time. Keep your ticket and try again.",
        Code::StartKeyInvalid => "Take the start key from gate.json once the sale is open.",
        Code::Banned => "This user or address may not take part.",
        Code::RateLimited => "Too many requests: wait as Retry-After says.",
        Code::TicketConflict => "This ticket was used with another SKU or quantity. One ticket makes one order.",
        Code::LimitReached => "With this order you would hold more units than one buyer may.",
        Code::SoldOut => "There are not enough units left. Units come back when others cancel or do not pay.",
        _ => "This sale has no such SKU.",
    };
    limits::refusal(Problem::new(code, detail), wait_ms, policies)
}
