//! Letting people in: who may ask (`lua/precheck.lua`), and whose human check counts (`lua/admit.lua`).

use domain::{
    human_check::Proof,
    ids::{ActivityId, UserId},
    problem::Code,
    time::Millis,
};

use super::limits::{self, RateLimit};
use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    script::{ADMIT, PRECHECK},
};

/// From this score on somebody looks suspicious: twenty requests too many, two wrong checks, or a ban of today.
pub const SUSPICION_THRESHOLD: i64 = 20;

/// What an order left unpaid adds to a score.
pub const STRIKE_SUSPICION: i64 = 10;

/// Somebody who asks for a challenge or a ticket.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The sale.
    pub activity: ActivityId,
    /// The user.
    pub user: UserId,
    /// The client's address, as limits count it.
    pub ip: String,
    /// Addresses that sent bad tokens or tickets since the last call, and how many (B6).
    pub abuse_by_ip: Vec<(String, i64)>,
}

/// What is said to a visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Limits as they stand.
    pub rate_limits: Vec<RateLimit>,
    /// How suspicious the visitor is, or why not to go on, with milliseconds to wait.
    pub outcome: Result<i64, (Code, i64)>,
}

/// Looks at bans and limits; `desk` is what is asked for, since challenges and tickets have buckets of their own.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn precheck<R: Redis>(redis: &R, visitor: &Visitor, endpoint: &str) -> Result<Admission, StoreError> {
    let Visitor { activity, user, ip, abuse_by_ip } = visitor;
    let keys = Keys::of(activity);
    let mut script_keys = vec![
        keys.named("gate"),
        keys.ban_user(user),
        keys.ban_ip(ip),
        keys.rate_limit(&format!("{endpoint}:user"), user.as_str()),
        keys.rate_limit(&format!("{endpoint}:ip"), ip),
        keys.abuse_user(user),
        keys.abuse_ip(ip),
        keys.named("stats"),
        keys.named("visitors"),
    ];
    let mut args = vec![user.as_str().into()];
    limits::push_abuse(&keys, abuse_by_ip, &mut script_keys, &mut args);
    let mut reply = PRECHECK.run(redis, script_keys, args).await?;
    let word = reply.text()?;
    reply.int()?;
    let rate_limits = limits::parse_rate_limits(&reply.text()?);
    let outcome = match word.as_str() {
        "welcome" => Ok(reply.int()?),
        "rate_limited" => {
            reply.text()?;
            Err((Code::RateLimited, reply.int()?))
        }
        word => match Code::parse(word) {
            Some(code) => Err((code, 0)),
            None => return Err(StoreError::Malformed(format!("knock answered {word:?}"))),
        },
    };
    Ok(Admission { rate_limits, outcome })
}

/// What came of a visitor's human check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It was passed.
    Passed(Proof),
    /// It was not; where it was one of ours, it is used up.
    Failed(Option<Proof>),
}

/// Uses the check up; answers whether the ticket may be issued.
///
/// # Errors
/// [`StoreError`] of Redis; then the check may be used up, and another one must be solved.
pub async fn admit<R: Redis>(
    redis: &R,
    visitor: &Visitor,
    check: &CheckOutcome,
    now: Millis,
) -> Result<bool, StoreError> {
    let keys = Keys::of(&visitor.activity);
    let (word, proof) = match check {
        CheckOutcome::Passed(proof) => ("passed", Some(proof)),
        CheckOutcome::Failed(proof) => ("failed", proof.as_ref()),
    };
    let script_keys = vec![
        keys.abuse_user(&visitor.user),
        keys.ban_user(&visitor.user),
        keys.human_check(proof.map_or("none", |proof| proof.id.as_str())),
        keys.named("stats"),
    ];
    // A second more than it lives: clocks differ a little.
    let ttl = proof.map_or(0, |proof| (proof.expires_at.0 - now.0).max(0) + 1_000);
    let args = vec![word.into(), ttl.to_string().into()];
    Ok(ADMIT.run(redis, script_keys, args).await?.text()? == "admitted")
}
