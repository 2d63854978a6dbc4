//! Checks before a ticket is issued: bans and limits (`lua/precheck.lua`), the human check (`lua/admit.lua`).

use domain::{
    human_check::CheckRecord,
    ids::{ActivityId, UserId},
    problem::Code,
    time::Millis,
};
use ulid::Ulid;

use super::limits::{self, RateLimitStatus};
use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    script::{ADMIT, PRECHECK},
};

/// Suspicion score from which a visitor counts as suspicious: for example twenty requests over the user's limit or two
/// failed human checks within a minute, or one ban of the user that the abuse record still counts. The points of that
/// minute count for ten minutes; the record expires a day after the last abuse.
pub const SUSPICION_THRESHOLD: i64 = 20;

/// Suspicion that each order left unpaid adds to a user's score.
pub const STRIKE_SUSPICION: i64 = 10;

/// A visitor who asks for a challenge or a ticket.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The activity.
    pub activity: ActivityId,
    /// The user.
    pub user: UserId,
    /// The client's address as `platform::client_address` returns it (IPv6: the /64 network).
    pub ip: String,
    /// Addresses that sent bad tokens or tickets since the last call, with the number of attempts (B6).
    pub abuse_by_ip: Vec<(String, i64)>,
}

/// What a visitor asks for; each has its own rate-limit buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// A human check to solve.
    Challenge,
    /// A ticket.
    Ticket,
}

impl Endpoint {
    /// The endpoint's part of the keys of its buckets.
    fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Ticket => "ticket",
        }
    }
}

/// Result of [`precheck`]: whether the visitor may go on to the challenge or the ticket, and the state of their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The rate limits after this request.
    pub rate_limits: Vec<RateLimitStatus>,
    /// The visitor's suspicion score without strikes, or the refusal and the milliseconds to wait (0 if waiting does
    /// not help).
    pub outcome: Result<i64, (Code, i64)>,
}

/// Checks bans and limits.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`; the request may have been counted.
pub async fn precheck<R: Redis>(redis: &R, visitor: &Visitor, endpoint: Endpoint) -> Result<Admission, StoreError> {
    let Visitor { activity, user, ip, abuse_by_ip } = visitor;
    let keys = Keys::of(activity);
    let endpoint = endpoint.as_str();
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
    let rate_limits = limits::parse_rate_limits(&reply.text()?);
    let outcome = match word.as_str() {
        "welcome" => Ok(reply.int()?),
        "rate_limited" => Err((Code::RateLimited, reply.int()?)),
        word => match Code::parse(word) {
            Some(code) => Err((code, 0)),
            None => return Err(StoreError::Malformed(format!("precheck answered {word:?}"))),
        },
    };
    Ok(Admission { rate_limits, outcome })
}

/// How long a check that this application did not issue is remembered by the ticket of its request, in milliseconds: a
/// script is repeated within seconds after its reply was lost.
const REPEATED_WITHIN_MS: i64 = 10_000;

/// Result of a visitor's human check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// Solved.
    Passed(CheckRecord),
    /// Not solved. The record is present if the check was issued by this application; it is then marked as used.
    Failed(Option<CheckRecord>),
}

/// Marks the human check as used by the request that would issue ticket `ticket`. Returns whether the ticket may be
/// issued: only for a solved check that no other request used.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`. The check may be used up: the visitor has to solve another one.
pub async fn admit<R: Redis>(
    redis: &R,
    visitor: &Visitor,
    check: &CheckOutcome,
    ticket: Ulid,
    now: Millis,
) -> Result<bool, StoreError> {
    let keys = Keys::of(&visitor.activity);
    let (word, record) = match check {
        CheckOutcome::Passed(record) => ("passed", Some(record)),
        CheckOutcome::Failed(record) => ("failed", record.as_ref()),
    };
    let ticket = ticket.to_string();
    let script_keys = vec![
        keys.abuse_user(&visitor.user),
        keys.ban_user(&visitor.user),
        keys.human_check(record.map_or(&ticket, |record| &record.id)),
        keys.named("stats"),
    ];
    // One second longer than the check's lifetime, because clocks differ a little.
    let ttl = record.map_or(REPEATED_WITHIN_MS, |record| (record.expires_at.0 - now.0).max(0) + 1_000);
    let args = vec![word.into(), ttl.to_string().into(), ticket.into()];
    Ok(ADMIT.run(redis, script_keys, args).await?.text()? == "admitted")
}
