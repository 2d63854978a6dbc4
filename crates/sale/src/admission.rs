//! Checks before a ticket is issued: bans and limits (`lua/precheck.lua`), the human check (`lua/admit.lua`).

use domain::{
    activity::{Eligibility, HumanCheck, Phase, Requirement},
    http::problem::{Code, Problem},
    human_check::CheckRecord,
    ids::{ActivityId, UserId},
    jwt::Claims,
    ticket::{ISSUED_BEFORE_START_MS, MAX_LIFETIME_MS},
    time::Millis,
};
use stores::{
    keys::Keys,
    ports::{Redis, RedisArg, StoreError},
    reply::unexpected,
};
use ulid::Ulid;

use super::{
    limits::{self, RateLimitStatus},
    reserve::Gate,
};
use crate::scripts::{ADMIT, PRECHECK};

/// Suspicion score from which a visitor counts as suspicious: for example twenty requests over the user's limit or two
/// failed human checks within a minute, or one ban of the user that the abuse record still counts. The points of that
/// minute count for ten minutes; the record expires a day after the last abuse.
pub const SUSPICION_THRESHOLD: i64 = 20;

/// Tickets that a user gets for an activity within a ticket's lifetime: enough for reloading the page, too few to
/// stockpile.
pub const MAX_OPEN_TICKETS: i64 = 30;

/// Pictures that a user gets for an activity, and the milliseconds within which: drawing one takes as long as some twenty
/// reservations. Enough for reloads and mistakes.
const PICTURES: (i64, i64) = (10, 100_000);

/// How long a ticket is noted under its user, in milliseconds: an hour longer than it lives, since the order that it made
/// last may wait in the queue.
const TICKET_NOTED_MS: i64 = MAX_LIFETIME_MS + 3_600_000;

/// Suspicion that each strike adds to a user's score.
pub const STRIKE_SUSPICION: i64 = 10;

/// A visitor who asks for a challenge or a ticket.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The activity.
    pub activity: ActivityId,
    /// The user.
    pub user: UserId,
    /// The client's address as `platform::request_address` returns it (IPv6: the /64 network).
    pub ip: String,
    /// What the instance counted since its last call (B6, G2).
    pub counts: Vec<(String, i64)>,
}

/// What a visitor asks for; each has its own rate-limit buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// A human check of this kind to solve.
    Challenge(HumanCheck),
    /// A ticket, with this ULID.
    Ticket(Ulid),
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
    let Visitor { activity, user, ip, counts } = visitor;
    let policy = |(count, ms): (i64, i64)| format!("{count}:{ms}");
    let (rate, numbers, ulid, allowance) = match endpoint {
        Endpoint::Challenge(HumanCheck::Captcha) => ("rate:challenge", "pictures", String::new(), policy(PICTURES)),
        Endpoint::Challenge(_) => ("rate:challenge", "pictures", String::new(), String::new()),
        Endpoint::Ticket(ulid) => {
            ("rate:ticket", "tickets", ulid.to_string(), policy((MAX_OPEN_TICKETS, MAX_LIFETIME_MS)))
        }
    };
    let site = site_of(ip);
    let keys = Keys::of(activity);
    let mut script_keys = keys.all(["gate", "stats", "visitors"]);
    script_keys.extend([
        keys.tickets(user),
        keys.user("ban", user),
        keys.user("abuse", user),
        keys.user(rate, user),
        keys.named(&format!("rate:{numbers}:{user}")),
        keys.ip("ban", ip),
        keys.ip("abuse", ip),
        keys.ip("suspect", ip),
        keys.ip(rate, ip),
        keys.ip(rate, site.as_deref().unwrap_or(ip)),
    ]);
    let mut args: Vec<RedisArg> = vec![
        user.as_str().into(),
        ip.as_str().into(),
        if site.is_some() { "1" } else { "" }.into(),
        ulid.into(),
        allowance.into(),
        MAX_OPEN_TICKETS.to_string().into(),
        TICKET_NOTED_MS.to_string().into(),
    ];
    limits::push_counts(counts, &keys, &mut script_keys, &mut args);
    let mut reply = PRECHECK.run(redis, script_keys, args).await?;
    let word = reply.text()?;
    let rate_limits = limits::parse_rate_limits(&reply.text()?);
    let outcome = match word.as_str() {
        "welcome" => Ok(reply.int()?),
        word => Err((Code::parse(word).ok_or_else(|| unexpected(word))?, reply.int()?)),
    };
    Ok(Admission { rate_limits, outcome })
}

/// The /48 of an IPv6 client, whose address is a /64.
fn site_of(ip: &str) -> Option<String> {
    let (site, _) = ip.strip_suffix("::/64")?.rsplit_once(':')?;
    Some(format!("{site}::/48"))
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
    /// Not looked at, because the presale code is wrong or taken: each tenth of a user counts as not solved.
    WrongCode,
}

/// Marks the human check as used by the request that would issue ticket `ticket`. The ticket may be issued for a solved
/// check that no other request used; otherwise returns why not: `human_check_failed`, `not_eligible` after a wrong code, or
/// `banned` if the user was banned since [`precheck`], in which case the check is not looked at.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`. The check may be used up: the visitor has to solve another one.
pub async fn admit<R: Redis>(
    redis: &R,
    visitor: &Visitor,
    check: &CheckOutcome,
    ticket: Ulid,
    now: Millis,
) -> Result<Result<(), Code>, StoreError> {
    let keys = Keys::of(&visitor.activity);
    let (word, record) = match check {
        CheckOutcome::Passed(record) => ("passed", Some(record)),
        CheckOutcome::Failed(record) => ("failed", record.as_ref()),
        CheckOutcome::WrongCode => ("wrong_code", None),
    };
    let ticket = ticket.to_string();
    let script_keys = vec![
        keys.user("abuse", &visitor.user),
        keys.user("ban", &visitor.user),
        keys.human_check(record.map_or(&ticket, |record| &record.id)),
        keys.named("stats"),
    ];
    // One second longer than the check's lifetime, because clocks differ a little.
    let ttl = record.map_or(REPEATED_WITHIN_MS, |record| (record.expires_at.0 - now.0).max(0) + 1_000);
    let args = vec![word.into(), ttl.to_string().into(), ticket.into()];
    let word = ADMIT.run(redis, script_keys, args).await?.text()?;
    match word.as_str() {
        "admitted" => Ok(Ok(())),
        word => Code::parse(word).map(Err).ok_or_else(|| unexpected(word)),
    }
}

/// Checks that tickets are issued at `now`: from 30 minutes before the start until the end, and not while shedding.
///
/// # Errors
/// `ended`, `not_open` or `overloaded`.
pub fn check_issue_window(gate: &Gate, now: Millis) -> Result<(), Problem> {
    let opens_at = gate.starts_at.plus(-ISSUED_BEFORE_START_MS);
    if gate.phase(now) == Phase::Ended {
        Err(Problem::new(Code::Ended, "The sale has ended."))
    } else if now < opens_at {
        let mut problem = Problem::new(Code::NotOpen, "Tickets are issued from 30 minutes before the start.");
        problem.extensions.opens_at = Some(opens_at);
        Err(problem.retry_after(now.seconds_until(opens_at, 1)))
    } else if gate.shed {
        let detail = "Only orders that exist are served right now. Try again a little later.";
        Err(Problem::new(Code::Overloaded, detail).retry_after(5))
    } else {
        Ok(())
    }
}

/// Returns the first condition of the activity that this user does not meet (B7).
#[must_use]
pub fn unmet_requirement(rules: &Eligibility, claims: &Claims) -> Option<Requirement> {
    let Eligibility { members_only, min_level, allow, groups, codes } = rules;
    let is_named = allow.contains(&claims.sub) || groups.iter().any(|group| claims.groups.contains(group));
    if *members_only && !claims.member {
        Some(Requirement::Members)
    } else if claims.level < *min_level {
        Some(Requirement::Level)
    } else if is_named || allow.is_empty() && groups.is_empty() && !codes {
        None
    } else if *codes {
        Some(Requirement::Code)
    } else {
        Some(if allow.is_empty() { Requirement::Groups } else { Requirement::List })
    }
}

#[cfg(test)]
mod tests {
    use domain::activity::ActivityState;

    use super::*;

    const MINUTE_MS: i64 = 60_000;

    #[test]
    fn tickets_are_issued_from_half_an_hour_before_the_start_until_the_end() {
        let gate = |state, shed| Gate {
            state,
            starts_at: Millis(40 * MINUTE_MS),
            ends_at: Millis(50 * MINUTE_MS),
            shed,
            start_key: String::new(),
        };
        use ActivityState::{Closed, Paused, Published};
        for (state, shed, now, expected) in [
            (Published, false, 10 * MINUTE_MS - 1, Some((Code::NotOpen, Some(1)))),
            (Published, false, 0, Some((Code::NotOpen, Some(600)))),
            (Published, false, 10 * MINUTE_MS, None),
            (Published, false, 50 * MINUTE_MS - 1, None),
            (Published, false, 50 * MINUTE_MS, Some((Code::Ended, None))),
            (Closed, false, 45 * MINUTE_MS, Some((Code::Ended, None))),
            (Paused, false, 45 * MINUTE_MS, None),
            (Published, true, 45 * MINUTE_MS, Some((Code::Overloaded, Some(5)))),
            (Published, true, 0, Some((Code::NotOpen, Some(600)))),
        ] {
            let found = check_issue_window(&gate(state, shed), Millis(now)).err();
            let found = found.map(|problem| (problem.code, problem.retry_after));
            assert_eq!(found, expected, "{state:?} at {now}, shed: {shed}");
        }
    }

    #[test]
    fn an_activity_is_for_whom_meets_every_condition_and_one_of_its_lists_names() {
        let user = |text: &str| UserId::parse(text).expect("id");
        let rules = |allow: &[&str], groups: &[&str]| Eligibility {
            allow: allow.iter().map(|text| user(text)).collect(),
            groups: groups.iter().map(|text| (*text).to_owned()).collect(),
            ..Eligibility::default()
        };
        let groups = vec!["staff".to_owned(), "vip".to_owned()];
        let ada = Claims { sub: user("ada"), level: 2, member: true, groups };
        let stranger = Claims { sub: user("eve"), level: 0, member: false, groups: Vec::new() };
        let members = Eligibility { members_only: true, ..rules(&["eve"], &[]) };
        let skilled = Eligibility { min_level: 1, ..members.clone() };
        let highest = Eligibility { min_level: 3, ..Eligibility::default() };
        let presale = |rules| Eligibility { codes: true, ..rules };
        use Requirement::{Code, Groups, Level, List, Members};
        for (rules, expected) in [
            (rules(&[], &[]), (None, None)),
            (rules(&["ben"], &[]), (Some(List), Some(List))),
            (rules(&[], &["vip", "press"]), (None, Some(Groups))),
            (rules(&[], &["press"]), (Some(Groups), Some(Groups))),
            (rules(&["eve"], &["vip"]), (None, None)),
            (rules(&["ben"], &["vip"]), (None, Some(List))),
            (presale(rules(&[], &[])), (Some(Code), Some(Code))),
            (presale(rules(&["ada"], &["press"])), (None, Some(Code))),
            (presale(members.clone()), (Some(Code), Some(Members))),
            (members, (Some(List), Some(Members))),
            (skilled, (Some(List), Some(Members))),
            (highest, (Some(Level), Some(Level))),
        ] {
            let unmet = (unmet_requirement(&rules, &ada), unmet_requirement(&rules, &stranger));
            assert_eq!(unmet, expected, "{rules:?}");
        }
    }
}
