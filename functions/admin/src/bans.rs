//! Sets and lifts bans (B6), shows and clears strikes (B8).

use domain::{
    api::{
        Page,
        operators::{Ban, Banned, Strikes},
    },
    client_address,
    http::{
        body,
        problem::{Code, FieldError, Problem},
    },
    ids::UserId,
};
use operations::commands::bans::{self, BanSubject};
use platform::{
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    paging,
    redis::SpinRedis,
};
use serde_json::json;

use crate::call::Outcome;

/// Parses the user that a call is about.
pub fn parse_user(user: &str) -> Result<UserId, Problem> {
    let detail = |error| format!("The path names no user: {error}.");
    UserId::parse(user).map_err(|error| Problem::new(Code::InvalidRequest, detail(error)))
}

/// Parses the client address that a call is about.
pub fn parse_address(ip: &str) -> Result<BanSubject, Problem> {
    let detail = "The path names no address: one is IPv4, IPv6, or an IPv6 network that ends in /64.";
    client_address::normalize(ip).map(BanSubject::Ip).ok_or_else(|| Problem::new(Code::InvalidRequest, detail))
}

/// Maximum and default number of bans in a page.
const MAX_PAGE: i64 = 200;

/// Handles `GET …/bans?before=&limit=`: the bans by operators that are in force, sorted by kind and name.
pub async fn list(request: &Request) -> Result<Response, ApiError> {
    let before = paging::before(request);
    let last = match &before {
        None => ("", ""),
        Some(text) => text
            .split_once('/')
            .filter(|(kind, name)| matches!(*kind, "user" | "ip") && !name.contains('\0'))
            .ok_or_else(|| Problem::invalid(vec![FieldError::new("?before", "must be the next of a page")]))?,
    };
    let limit = paging::limit(request, MAX_PAGE)?;
    let now = SpinRedis.now().await?;
    let found = bans::list(&SpinLedger::open().await, last, limit + 1, now).await?;
    Ok(Response::json(200, &Page::new(found, limit, |ban| format!("{}/{}", ban.kind.as_str(), ban.name))))
}

/// Handles `PUT …/bans/…`: bans for `seconds`. The reason may say anything about a person: the record of changes, which
/// is kept for ever, is without it.
pub async fn ban(request: &Request, subject: &BanSubject) -> Result<Outcome, ApiError> {
    let Ban { seconds, reason } = body::parse_strict(&request.body, Ban::validate)?;
    let until = SpinRedis.now().await?.plus(seconds * 1000);
    bans::ban(&SpinRedis, &SpinLedger::open().await, subject, until, &reason).await?;
    Ok(Outcome::recorded(&json!({ "until": until }), Response::json(200, &Banned { until, reason })))
}

/// Handles `DELETE …/bans/…`.
pub async fn lift(subject: &BanSubject) -> Result<Outcome, ApiError> {
    let was_banned = bans::lift(&SpinRedis, &SpinLedger::open().await, subject).await?;
    Ok(Outcome::deleted().only_if(was_banned))
}

/// Handles `GET …/strikes/:user`.
pub async fn strikes(user: UserId) -> Result<Response, ApiError> {
    Ok(Response::json(200, &load_strikes(&SpinLedger::open().await, user).await?))
}

/// Loads the strikes of a user.
pub async fn load_strikes(ledger: &SpinLedger, user: UserId) -> Result<Strikes, ApiError> {
    let (count, last_at) = bans::load_strikes(ledger, &user).await?;
    let last_at = (count > 0).then_some(last_at);
    Ok(Strikes { user, count, last_at, limit: bans::STRIKE_LIMIT })
}

/// Handles `DELETE …/strikes/:user`.
pub async fn clear_strikes(user: &UserId) -> Result<Outcome, ApiError> {
    let had_any = bans::clear_strikes(&SpinLedger::open().await, user).await?;
    Ok(Outcome::deleted().only_if(had_any))
}
