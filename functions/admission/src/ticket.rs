//! `POST /api/activities/:activity/ticket`: issues a ticket (B1, B2, B7).
//!
//! The slow checks (JWT, ledger, human check) run here, before the rush, so that a reservation verifies only the
//! ticket's HMAC.

use domain::{
    activity::{HumanCheck, Requirement},
    api::admission::{Solution, TicketDocument},
    http::problem::{Code, Problem},
    ids::ActivityId,
    presale::PresaleCode,
    ticket::{self, Ticket},
};
use operations::commands::bans;
use platform::{
    clock,
    http::{ApiError, Request, Response},
    instance_counts,
    ledger::SpinLedger,
    random,
    redis::SpinRedis,
    settings,
};
use sale::{
    admission::{CheckOutcome, Endpoint, STRIKE_SUSPICION, Visitor, admit},
    ledger::presale,
    limits,
};
use ulid::Ulid;

use crate::{
    hosted, human_check,
    precheck::{self, Precheck},
    strikes,
};

/// Returns `201` with a ticket for this user and activity.
pub async fn post(request: &Request, activity: ActivityId) -> Result<Response, ApiError> {
    let solution: Solution = precheck::optional_body(request)?;
    let tickets = settings::load(settings::TICKET_KEYS).await?;
    let order_numbers = settings::load(settings::ORDER_NUMBER_KEYS).await?;
    let no_secret = || ApiError::Unexpected("no ticket secret".to_owned());
    let ulid = order_numbers.issue(&activity, clock::now(), random::bits()).ok_or_else(no_secret)?;
    let lacks_code = solution.code.as_deref().is_none_or(str::is_empty);
    let precheck = Precheck::run(request, activity, lacks_code, |_| Endpoint::Ticket(ulid)).await?;
    let now = precheck.now;
    let check_result = match claim_code(&precheck, solution.code.as_deref().unwrap_or_default(), ulid).await {
        Ok(()) => check(request, &precheck, &solution).await,
        Err(refusal) => Err(refusal),
    };
    let check_result =
        check_result.inspect_err(|error| instance_counts::record_error(&precheck.visitor.activity, error))?;
    // Redis counts those that fail here.
    if let Some(check_result) = check_result
        && let Err(code) = admit(&SpinRedis, &precheck.visitor, &check_result.outcome, ulid, now).await?
    {
        return Err(match code {
            Code::Banned => Problem::new(code, precheck::BANNED),
            _ => human_check::check_failed(check_result.detail),
        }
        .into());
    }
    let gate = &precheck.cached_gate.snapshot.gate;
    let expires_at = ticket::expiry(now, gate.starts_at, gate.ends_at);
    let Precheck { claims, visitor, rate_limits, .. } = precheck;
    let ticket = Ticket { activity: visitor.activity, ulid, expires_at, level: claims.level, user: claims.sub };
    let text = tickets.issue(&ticket).ok_or_else(no_secret)?;
    let response = Response::json(201, &TicketDocument { ticket: text, order_no: ticket.order_no(), expires_at });
    Ok(response.with_headers(limits::headers(&rate_limits)))
}

/// Gives the presale code to the visitor if the activity asks for one: before a human check is used up, and before anything
/// is held. A user who was given it and no ticket has it still, and gets no other one.
async fn claim_code(precheck: &Precheck, code: &str, ticket: Ulid) -> Result<(), ApiError> {
    if !precheck.needs_code {
        return Ok(());
    }
    let Visitor { activity, user, .. } = &precheck.visitor;
    if let Some(code) = PresaleCode::parse(code) {
        let ledger = SpinLedger::open().await;
        if presale::has_code(&ledger, activity, user).await? || presale::claim(&ledger, activity, &code, user).await? {
            return Ok(());
        }
    }
    match admit(&SpinRedis, &precheck.visitor, &CheckOutcome::WrongCode, ticket, precheck.now).await? {
        Err(Code::Banned) => Err(Problem::new(Code::Banned, precheck::BANNED).into()),
        _ => {
            let detail = "This code is wrong, or others have used it. Look at it again.";
            Err(precheck::not_eligible(Requirement::Code, detail).into())
        }
    }
}

/// Checks the visitor's strikes and the solution of the human check; `None` if the activity requires no check of this
/// visitor.
async fn check(
    request: &Request,
    precheck: &Precheck,
    solution: &Solution,
) -> Result<Option<human_check::CheckResult>, ApiError> {
    let human_check = precheck.activity.spec.human_check;
    let strikes = strikes::count(&precheck.claims.sub, human_check, precheck.now).await?;
    if strikes >= bans::STRIKE_LIMIT {
        let detail = "Too many of your orders were left unpaid or cancelled late. Ask the shop to clear your strikes.";
        return Err(Problem::new(Code::TooManyStrikes, detail).into());
    }
    match human_check {
        HumanCheck::None => Ok(None),
        HumanCheck::Hosted => {
            let token = solution.hosted.as_deref().ok_or_else(human_check::check_required)?;
            Ok(Some(hosted::verify(request, token, precheck.now).await?))
        }
        _ => {
            let score = precheck.score + STRIKE_SUSPICION * strikes;
            Ok(human_check::verify(&*settings::load(settings::CHECK_KEYS).await?, precheck, solution, score)?)
        }
    }
}
