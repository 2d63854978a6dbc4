//! Everything that challenges and tickets ask first: who it is, of which sale, and whether they may ask.

use std::rc::Rc;

use domain::{
    activity::{Eligibility, Phase},
    check::Subject,
    ids::ActivityId,
    problem::{Code, Problem},
    ticket::ISSUED_BEFORE_START_MS,
    time::Millis,
    token::{Claims, TokenError},
};
use platform::{
    abuse,
    activity_cache::{self, CachedActivity, Read},
    auth, client_address, clock,
    http::{Call, Failure},
    limits,
    redis::SpinRedis,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use workflows::hot::{
    admission::{Visitor, precheck},
    limits::Policy,
};

/// Somebody who may go on.
pub struct Visit {
    /// Who they are.
    pub claims: Claims,
    /// As Redis sees them.
    pub visitor: Visitor,
    /// The gate.
    pub glance: Rc<Read>,
    /// The sale.
    pub sale: Rc<CachedActivity>,
    /// Redis's clock.
    pub now: Millis,
    /// Limits as they stand.
    pub policies: Vec<Policy>,
    /// How suspicious they are.
    pub score: i64,
}

impl Visit {
    /// Lets somebody in who asks for a `desk`: `challenge` or `ticket`. The cheapest refusal comes first, and Redis is
    /// asked once, after everything that CPU and memory can tell.
    pub async fn of(call: &Call, activity: ActivityId, desk: &str) -> Result<Self, Failure> {
        let ip = client_address::address(call).await;
        let claims = auth::sign_in(call).await?.map_err(|error| {
            // An old token, or none, is a page that was left open; a forged one is worth a note.
            if error == TokenError::Forged {
                abuse::record(&activity, ip.clone());
            }
            auth::refused(error)
        })?;
        let glance = activity_cache::glance(&activity).await?;
        let sale = activity_cache::sale(&activity).await?;
        let now = activity_cache::server_time(&glance, clock::now());
        timely(&glance, now)?;
        if !eligible(&sale.spec.eligibility, &claims) {
            return Err(Problem::new(Code::NotEligible, "This sale is not open to your account.").into());
        }
        let abused = abuse::take(&activity);
        let visitor = Visitor { activity, user: claims.sub.clone(), ip, abused };
        let reception = precheck(&SpinRedis, &visitor, desk).await?;
        let policies = reception.policies;
        match reception.outcome {
            Ok(score) => Ok(Self { claims, visitor, glance, sale, now, policies, score }),
            Err((code, wait_ms)) => {
                let detail = match code {
                    Code::Banned => "This user or address may not take part.",
                    Code::RateLimited => "Too many requests: wait as Retry-After says.",
                    _ => "The sale is not loaded. An operator must publish it.",
                };
                Err(limits::refusal(Problem::new(code, detail), wait_ms, &policies).into())
            }
        }
    }

    /// Whom a human check is bound to.
    pub fn subject(&self) -> Subject<'_> {
        Subject { activity: &self.visitor.activity, user: &self.visitor.user }
    }
}

/// The body, which may be left out; text that is not JSON is refused wherever it stands.
pub fn body<T: Default + DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    if call.body.is_empty() {
        return Ok(T::default());
    }
    let _: serde_json::Map<String, serde_json::Value> = domain::body::parse(&call.body)?;
    domain::body::parse(&call.body)
}

/// Whether tickets are issued at `now`.
fn timely(glance: &Read, now: Millis) -> Result<(), Problem> {
    let gate = &glance.gate;
    let opens_at = gate.starts_at.plus(-ISSUED_BEFORE_START_MS);
    if gate.phase(now) == Phase::Ended {
        Err(Problem::new(Code::Ended, "The sale has ended."))
    } else if now < opens_at {
        let mut problem = Problem::new(Code::NotOpen, "Tickets are issued from 30 minutes before the start.");
        problem.more.push(("opens_at", json!(opens_at)));
        Err(problem.retry_after(now.seconds_until(opens_at, 1)))
    } else if gate.shed {
        let detail = "Only orders that exist are served right now. Try again a little later.";
        Err(Problem::new(Code::Overloaded, detail).retry_after(5))
    } else {
        Ok(())
    }
}

/// Whether the sale is for this user (B7).
fn eligible(rules: &Eligibility, claims: &Claims) -> bool {
    (!rules.members_only || claims.member)
        && claims.level >= rules.min_level
        && (rules.allow.is_empty() || rules.allow.contains(&claims.sub))
}
