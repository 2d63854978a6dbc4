//! Bans (B6) and strikes (B8).

use domain::{
    body,
    ids::{InvalidId, UserId},
    problem::{Code, FieldError, Problem},
};
use platform::{
    client_address,
    http::{Answer, Call, Failure},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde::Deserialize;
use serde_json::json;
use workflows::operator::bans::{self, Banned};

#[derive(Deserialize)]
struct Ban {
    seconds: i64,
    #[serde(default)]
    reason: String,
}

/// Whom the last two parts of a path name.
pub fn who(kind: &str, name: &str) -> Result<Banned, Failure> {
    match kind {
        "user" => UserId::parse(&client_address::decoded(name)).map(Banned::User).map_err(|error| nobody(&error)),
        _ => client_address::normal(&client_address::decoded(name))
            .map(Banned::Ip)
            .ok_or_else(|| wrong("The path names no address: one is IPv4, IPv6, or an IPv6 network that ends in /64.")),
    }
}

/// `PUT`: bans for a time.
pub async fn ban(call: &Call, who: &Banned) -> Result<Answer, Failure> {
    let Ban { seconds, reason } = body::parse(&call.body)?;
    if !(1..=315_360_000).contains(&seconds) {
        return Err(Problem::invalid(vec![FieldError::new("/seconds", "must be 1 to 315,360,000")]).into());
    }
    // PostgreSQL takes no NUL.
    if reason.contains('\0') {
        return Err(Problem::invalid(vec![FieldError::new("/reason", "must be text without NUL")]).into());
    }
    let until = SpinRedis.now().await?.plus(seconds * 1000);
    bans::ban(&SpinRedis, &SpinLedger::open().await, who, until, &reason).await?;
    Ok(Answer::json(200, &json!({ "until": until, "reason": reason })))
}

/// `DELETE`: lifts a ban.
pub async fn lift(who: &Banned) -> Result<Answer, Failure> {
    bans::lift(&SpinRedis, &SpinLedger::open().await, who).await?;
    Ok(Answer::empty(204))
}

/// `GET …/strikes/:user`.
pub async fn strikes(user: &str) -> Result<Answer, Failure> {
    let user = user_id(user)?;
    let (count, last_at) = bans::strikes(&SpinLedger::open().await, &user).await?;
    let last_at = (count > 0).then_some(last_at);
    Ok(Answer::json(200, &json!({ "user": user, "count": count, "last_at": last_at, "limit": bans::STRIKES })))
}

/// `DELETE …/strikes/:user`.
pub async fn forgive(user: &str) -> Result<Answer, Failure> {
    bans::forgive(&SpinLedger::open().await, &user_id(user)?).await?;
    Ok(Answer::empty(204))
}

fn user_id(text: &str) -> Result<UserId, Failure> {
    UserId::parse(&client_address::decoded(text)).map_err(|error| nobody(&error))
}

fn nobody(error: &InvalidId) -> Failure {
    wrong(&format!("The path names no user: {error}."))
}

fn wrong(detail: &str) -> Failure {
    Problem::new(Code::InvalidRequest, detail).into()
}
