//! Everything that challenges and tickets ask first: who it is, of which sale, and whether they may ask.

use std::rc::Rc;

use domain::{
    activity::{Eligibility, Phase},
    human_check::Subject,
    ids::ActivityId,
    jwt::{Claims, TokenError},
    problem::{Code, Problem},
    ticket::ISSUED_BEFORE_START_MS,
    time::Millis,
};
use platform::{
    abuse,
    activity_cache::{self, CachedActivity, CachedGate},
    auth, client_address, clock,
    http::{ApiError, Request},
    limits,
    redis::SpinRedis,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use workflows::hot::{
    admission::{Visitor, precheck},
    limits::RateLimit,
};

/// Somebody who may go on.
pub struct Precheck {
    /// Who they are.
    pub claims: Claims,
    /// As Redis sees them.
    pub visitor: Visitor,
    /// The gate.
    pub snapshot: Rc<CachedGate>,
    /// The sale.
    pub activity: Rc<CachedActivity>,
    /// Redis's clock.
    pub now: Millis,
    /// Limits as they stand.
    pub rate_limits: Vec<RateLimit>,
    /// How suspicious they are.
    pub score: i64,
}

impl Precheck {
    /// Lets somebody in who asks for a `desk`: `challenge` or `ticket`. The cheapest refusal comes first, and Redis is
    /// asked once, after everything that CPU and memory can tell.
    pub async fn run(request: &Request, activity: ActivityId, bucket: &str) -> Result<Self, ApiError> {
        let ip = client_address::address(request).await;
        let claims = auth::verify_token(request).await?.map_err(|error| {
            // An old token, or none, is a page that was left open; a forged one is worth a note.
            if error == TokenError::Forged {
                abuse::record(&activity, ip.clone());
            }
            auth::unauthenticated(error)
        })?;
        let snapshot = activity_cache::gate(&activity).await?;
        let cached = activity_cache::activity(&activity).await?;
        let now = activity_cache::server_time(&snapshot, clock::now());
        check_issue_window(&snapshot, now)?;
        if !is_eligible(&cached.spec.eligibility, &claims) {
            return Err(Problem::new(Code::NotEligible, "This sale is not open to your account.").into());
        }
        let abuse_by_ip = abuse::take(&activity);
        let visitor = Visitor { activity, user: claims.sub.clone(), ip, abuse_by_ip };
        let admission = precheck(&SpinRedis, &visitor, bucket).await?;
        let rate_limits = admission.rate_limits;
        match admission.outcome {
            Ok(score) => Ok(Self { claims, visitor, snapshot, activity: cached, now, rate_limits, score }),
            Err((code, wait_ms)) => {
                let detail = match code {
                    Code::Banned => "This user or address may not take part.",
                    Code::RateLimited => "Too many requests: wait as Retry-After says.",
                    _ => "The sale is not loaded. An operator must publish it.",
                };
                Err(limits::refusal(Problem::new(code, detail), wait_ms, &rate_limits).into())
            }
        }
    }

    /// Whom a human check is bound to.
    pub fn subject(&self) -> Subject<'_> {
        Subject { activity: &self.visitor.activity, user: &self.visitor.user }
    }
}

/// The body, which may be left out; text that is not JSON is refused wherever it stands.
pub fn optional_body<T: Default + DeserializeOwned>(request: &Request) -> Result<T, Problem> {
    if request.body.is_empty() {
        return Ok(T::default());
    }
    let _: serde_json::Map<String, serde_json::Value> = domain::body::parse(&request.body)?;
    domain::body::parse(&request.body)
}

/// Whether tickets are issued at `now`.
fn check_issue_window(snapshot: &CachedGate, now: Millis) -> Result<(), Problem> {
    let gate = &snapshot.gate;
    let opens_at = gate.starts_at.plus(-ISSUED_BEFORE_START_MS);
    if gate.phase(now) == Phase::Ended {
        Err(Problem::new(Code::Ended, "The sale has ended."))
    } else if now < opens_at {
        let mut problem = Problem::new(Code::NotOpen, "Tickets are issued from 30 minutes before the start.");
        problem.extensions.push(("opens_at", json!(opens_at)));
        Err(problem.retry_after(now.seconds_until(opens_at, 1)))
    } else if gate.shed {
        let detail = "Only orders that exist are served right now. Try again a little later.";
        Err(Problem::new(Code::Overloaded, detail).retry_after(5))
    } else {
        Ok(())
    }
}

/// Whether the sale is for this user (B7).
fn is_eligible(rules: &Eligibility, claims: &Claims) -> bool {
    (!rules.members_only || claims.member)
        && claims.level >= rules.min_level
        && (rules.allow.is_empty() || rules.allow.contains(&claims.sub))
}
