//! Handles a reservation with at most one Redis call (D1).
//!
//! Requests that the ticket or the instance's gate cache rules out are refused without any.

use std::{cell::RefCell, time::Duration};

use domain::{
    api::admission::Reservation,
    http::{
        body,
        problem::{Code, FieldError, Problem},
        routes::Reserve,
    },
    ids::{ActivityId, OrderNo, SkuId},
    ticket::TicketError,
};
use platform::{
    clock,
    http::{ApiError, Request, Response, not_found},
    instance_counts,
    lru_map::LruMap,
    redis::SpinRedis,
    request_address, settings,
    single_flight::{Flight, Joined},
};
use sale::{
    gate_cache::{Decision, GateCache},
    limits::{self, RateLimitStatus},
    reserve::{MAX_DELAY_MS, Position, ReserveOutcome, ReserveReply, ReserveRequest, reserve},
};

/// How long a request waits for another one that refreshes the gate; after that it calls Redis itself, which may keep
/// the other one waiting for longer.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(500);

thread_local! {
    static GATES: RefCell<LruMap<ActivityId, Flight<GateCache>, 1_024>> = RefCell::default();
}

/// Returns `202` with the queued order.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    let (Reserve::Order, [activity, _]) = request.route()?;
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let body: Reservation = body::parse(&request.body)?;
    let sku = SkuId::parse(&body.sku).map_err(|e| Problem::invalid(vec![FieldError::new("/sku", e.to_string())]))?;
    if !(1..=1_000_000).contains(&body.quantity) {
        return Err(Problem::invalid(vec![FieldError::new("/quantity", "must be 1 to 1,000,000")]).into());
    }
    let now = clock::now();
    let ip = request_address::address(request).await?;
    let ticket =
        settings::load(settings::TICKET_KEYS).await?.verify(&body.ticket, &activity, now).map_err(|error| {
            instance_counts::record_refusal(&activity, Code::TicketInvalid);
            // An expired ticket is a mistake; only a forged one counts as abuse.
            if error == TicketError::Forged {
                instance_counts::record_abuse(&activity, ip.clone());
            }
            Problem::new(Code::TicketInvalid, error.to_string())
        })?;
    let mut reserve_request = ReserveRequest {
        order_no: ticket.order_no(),
        user: ticket.user,
        sku,
        quantity: body.quantity,
        amount: body.amount,
        start_key: body.start_key,
        ip,
        decide_until: now,
        last_order: Position::default(),
        counts: Vec::new(),
    };
    let gate = GATES.with_borrow_mut(|gates| gates.get(&activity));
    let decide = |cache: &mut GateCache, is_refreshing| cache.decide(&reserve_request, clock::now(), is_refreshing);
    let refresh_guard = match gate.join(Some(REFRESH_TIMEOUT), decide).await {
        Joined::Use(Decision::Refuse(code, wait_ms)) => {
            instance_counts::record_refusal(&activity, code);
            return Err(refusal(code, wait_ms, &[], &reserve_request.order_no).into());
        }
        Joined::Use(Decision::InsufficientStock(left)) => {
            instance_counts::record_refusal(&activity, Code::InsufficientStock);
            return Err(insufficient_stock(left, &[], &reserve_request.order_no).into());
        }
        Joined::Use(Decision::Send) => None,
        Joined::Fetch(guard) => guard,
    };
    (reserve_request.decide_until, reserve_request.last_order) =
        gate.with(|cache| (cache.redis_time(now.plus(MAX_DELAY_MS)), cache.last_order));
    reserve_request.counts = instance_counts::take(&activity);
    let reply = reserve(&SpinRedis, &reserve_request, refresh_guard.is_some()).await?;
    gate.with(|cache| cache.update(&reserve_request, &reply, clock::now()));
    drop(refresh_guard);
    into_response(reply, &reserve_request.order_no)
}

fn into_response(reply: ReserveReply, order_no: &OrderNo) -> Result<Response, ApiError> {
    let rate_limits = &reply.rate_limits;
    match reply.outcome {
        ReserveOutcome::Queued(order) => {
            let location = format!("/api/orders/{}", order.order_no);
            let response = Response::json(202, &order).header("location", location).header("retry-after", "1");
            Ok(response.with_headers(limits::headers(rate_limits)))
        }
        ReserveOutcome::Refused(code, wait_ms) => Err(refusal(code, wait_ms, rate_limits, order_no).into()),
        ReserveOutcome::OnlyOneByOne => {
            let detail = "No unit is left, or somebody waits for it. Ask for one unit to wait in the line.";
            let mut problem = Problem::new(Code::SoldOut, detail);
            problem.extensions.order_no = Some(order_no.clone());
            Err(limits::add_to_problem(problem, 0, rate_limits).into())
        }
        ReserveOutcome::WaitsAlready(first) => {
            let mut problem = Problem::new(Code::LimitReached, "You wait for a unit already, with this order number.");
            problem.extensions.order_no = Some(first);
            Err(limits::add_to_problem(problem, 0, rate_limits).into())
        }
        ReserveOutcome::InsufficientStock(left) => Err(insufficient_stock(left, rate_limits, order_no).into()),
        ReserveOutcome::PriceChanged(money) => {
            let mut problem = Problem::new(Code::PriceChanged, "Show the new amount, and ask the buyer again.");
            (problem.extensions.amount, problem.extensions.currency) = (Some(money.amount), Some(money.currency));
            Err(limits::add_to_problem(problem, 0, rate_limits).into())
        }
    }
}

fn refusal(code: Code, wait_ms: i64, rate_limits: &[RateLimitStatus], order_no: &OrderNo) -> Problem {
    let detail = match code {
        Code::NotReady => "The stock of this sale is not loaded, or is being restored. Keep your ticket and try again.",
        Code::Ended => "The sale has ended.",
        Code::Paused => "The sale is paused. Keep your ticket and try again.",
        Code::NotOpen => "The sale has not started. Ask the gate for its start.",
        Code::Overloaded => "More people are in line than can be served in time. Keep your ticket and try again.",
        Code::StartKeyInvalid => "Take the start key from gate.json once the sale is open.",
        Code::Banned => "This user or address may not take part.",
        Code::RateLimited => "Too many requests: wait as Retry-After says.",
        Code::TicketConflict => "This ticket was used with another SKU or quantity. One ticket makes one order.",
        Code::LimitReached => "With this order you would hold more units than one buyer may.",
        Code::SoldOut => {
            "No unit is left; if an earlier request had no answer, read this order. Units come back when others cancel or \
             do not pay."
        }
        _ => "This sale has no such SKU.",
    };
    let mut problem = Problem::new(code, detail);
    problem.extensions.order_no = (code == Code::SoldOut).then(|| order_no.clone());
    limits::add_to_problem(problem, wait_ms, rate_limits)
}

fn insufficient_stock(left: i64, rate_limits: &[RateLimitStatus], order_no: &OrderNo) -> Problem {
    let detail = "Fewer units are left; if an earlier request had no answer, read this order.";
    let mut problem = Problem::new(Code::InsufficientStock, detail);
    (problem.extensions.left, problem.extensions.order_no) = (Some(left), Some(order_no.clone()));
    limits::add_to_problem(problem, 0, rate_limits)
}
