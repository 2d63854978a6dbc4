//! `POST /api/activities/:activity/ticket`: everything slow happens here, before the rush.

use serde_json::json;
use stampede_domain::{
    activity::{Eligibility, HumanCheck, Phase},
    ids::ActivityId,
    problem::{Code, Problem},
    ticket::{ISSUED_BEFORE_START_MS, LIFETIME_MS, Ticket},
    time::Millis,
    token::Claims,
};
use stampede_platform::{
    auth, client, clock,
    http::{Answer, Call, Failure, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
    sales,
};
use stampede_sale::bans;
use ulid::Ulid;

/// Answers `201` and a ticket, or why not.
pub async fn post(call: &Call, activity: ActivityId) -> Result<Answer, Failure> {
    if !call.body.is_empty() {
        let _: serde_json::Map<String, serde_json::Value> = stampede_domain::body::parse(&call.body)?;
    }
    let tickets = auth::tickets().await?;
    let claims = auth::user(call).await?;
    let unknown = || not_found("There is no such sale.");
    let glance = sales::glance(&activity).await?.ok_or_else(unknown)?;
    let sale = sales::sale(&activity).await?.ok_or_else(unknown)?;
    let now = sales::server_time(&glance, clock::now());

    let opens_at = glance.gate.starts_at.plus(-ISSUED_BEFORE_START_MS);
    if glance.gate.phase(now) == Phase::Ended {
        return Err(Problem::new(Code::Ended, "The sale has ended.").into());
    }
    if now < opens_at {
        let detail = "Tickets are issued from 30 minutes before the start.";
        return Err(Problem::new(Code::NotOpen, detail).retry_after(now.seconds_until(opens_at, 1)).into());
    }
    let ip = client::address(call).await;
    if bans::is_banned(&SpinRedis, &activity, &claims.sub, &ip).await? {
        return Err(Problem::new(Code::Banned, "This user or address may not take part.").into());
    }
    let (strikes, last_at) = bans::strikes(&SpinLedger::open().await, &claims.sub).await?;
    if strikes >= bans::STRIKES && last_at.plus(bans::STRIKE_LASTS_MS) > now {
        let detail = "Too many of your orders were left unpaid. Ask the shop to forgive you.";
        return Err(Problem::new(Code::NotEligible, detail).into());
    }
    if !eligible(&sale.spec.eligibility, &claims) {
        return Err(Problem::new(Code::NotEligible, "This sale is not open to your account.").into());
    }
    if sale.spec.human_check != HumanCheck::None {
        return Err(Problem::new(Code::HumanCheckRequired, "Solve a challenge of this sale first.").into());
    }
    let expires_at = Millis(now.plus(LIFETIME_MS).0.min(glance.gate.ends_at.0) / 1000 * 1000);
    let ulid = Ulid::from_parts(now.0.unsigned_abs(), sales::random());
    let ticket = Ticket { activity, ulid, expires_at, level: claims.level, user: claims.sub };
    let text = tickets.issue(&ticket).ok_or_else(|| Failure::Unexpected("no ticket secret".to_owned()))?;
    Ok(Answer::json(201, &json!({ "ticket": text, "expires_at": expires_at })))
}

/// Whether the sale is for this user (B7).
fn eligible(rules: &Eligibility, claims: &Claims) -> bool {
    (!rules.members_only || claims.member)
        && claims.level >= rules.min_level
        && (rules.allow.is_empty() || rules.allow.contains(&claims.sub))
}
