//! `POST /api/activities/:activity/ticket`: everything slow happens here, before the rush.

use domain::{
    activity::HumanCheck,
    ids::ActivityId,
    problem::{Code, Problem},
    ticket::{LIFETIME_MS, Ticket},
    time::Millis,
};
use platform::{
    activity_cache, auth,
    http::{Answer, Call, Failure},
    ledger::SpinLedger,
    limits,
    redis::SpinRedis,
};
use serde_json::json;
use ulid::Ulid;
use workflows::{
    hot::admission::{STRIKE, admit},
    operator::bans,
};

use crate::{
    check::{self, Solution},
    visitor::{self, Visit},
};

/// Answers `201` and a ticket, or why not.
pub async fn post(call: &Call, activity: ActivityId) -> Result<Answer, Failure> {
    let solution: Solution = visitor::body(call)?;
    let tickets = auth::tickets().await?;
    let visit = Visit::of(call, activity, "ticket").await?;
    let now = visit.now;
    let (strikes, last_at) = bans::strikes(&SpinLedger::open().await, &visit.claims.sub).await?;
    let strikes = if last_at.plus(bans::STRIKE_LASTS_MS) > now { strikes } else { 0 };
    if strikes >= bans::STRIKES {
        let detail = "Too many of your orders were left unpaid. Ask the shop to forgive you.";
        return Err(Problem::new(Code::NotEligible, detail).into());
    }
    let verdict = match visit.sale.spec.human_check {
        HumanCheck::None => None,
        _ => check::judge(&*auth::checks().await?, &visit, &solution, visit.score + STRIKE * strikes)?,
    };
    if let Some(verdict) = verdict
        && !admit(&SpinRedis, &visit.visitor, &verdict.check, now).await?
    {
        return Err(check::failed(verdict.because).into());
    }
    let expires_at = Millis(now.plus(LIFETIME_MS).0.min(visit.glance.gate.ends_at.0) / 1000 * 1000);
    let ulid = Ulid::from_parts(now.0.unsigned_abs(), activity_cache::random());
    let Visit { claims, visitor, policies, .. } = visit;
    let ticket = Ticket { activity: visitor.activity, ulid, expires_at, level: claims.level, user: claims.sub };
    let text = tickets.issue(&ticket).ok_or_else(|| Failure::Unexpected("no ticket secret".to_owned()))?;
    let answer = Answer::json(201, &json!({ "ticket": text, "expires_at": expires_at }));
    Ok(limits::headers(&policies).into_iter().fold(answer, |answer, (name, value)| answer.header(name, value)))
}
