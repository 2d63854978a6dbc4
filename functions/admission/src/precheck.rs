//! Checks that challenges and tickets share: token, issue window, eligibility, bans and limits.

use std::{cell::RefCell, rc::Rc};

use domain::{
    activity::{HumanCheck, Requirement},
    http::problem::{Code, Problem},
    human_check::Subject,
    ids::{ActivityId, UserId},
    jwt::{Claims, unverified_user},
    time::Millis,
};
use platform::{
    activity_cache, auth, clock,
    http::{ApiError, Request},
    instance_counts,
    redis::SpinRedis,
    request_address,
};
use sale::{
    admission::{Endpoint, Visitor, check_issue_window, precheck, unmet_requirement},
    limits::{self, RateLimitStatus},
    visitors::{CachedActivity, CachedGate},
};
use serde::de::DeserializeOwned;
use stores::recent::Recent;

/// `detail` of a refusal because of a ban.
pub const BANNED: &str = "This user or address may not take part.";

thread_local! {
    /// The users whom Redis refused as banned, by activity and client address. Those whose tokens were verified only.
    static RECENT_BANS: RefCell<Recent<(ActivityId, UserId, String)>> = RefCell::default();
}

/// A visitor who passed the checks that [`Precheck::run`] makes, with what they loaded.
pub struct Precheck {
    /// The claims of the visitor's token.
    pub claims: Claims,
    /// The visitor's user, client address and activity, as the Redis scripts need them.
    pub visitor: Visitor,
    /// The gate and the stock.
    pub cached_gate: Rc<CachedGate>,
    /// The activity.
    pub activity: Rc<CachedActivity>,
    /// The current time by Redis's clock.
    pub now: Millis,
    /// The visitor's rate limits after this request.
    pub rate_limits: Vec<RateLimitStatus>,
    /// The visitor's suspicion score from Redis; strikes are not included.
    pub score: i64,
    /// Whether the activity asks this visitor for a presale code.
    pub needs_code: bool,
}

impl Precheck {
    /// With `lacks_code`, whom the activity asks for a presale code is refused. Runs all checks for what is asked for where the activity has this human check, the cheapest first, and calls the
    /// precheck script in Redis last.
    ///
    /// # Errors
    /// `unauthenticated` without a valid token; `not_found`, `ended`, `not_open` or `overloaded` if the activity issues
    /// no tickets now; `not_eligible`; `banned` or `rate_limited` by the script; `not_ready` if a store is unavailable
    /// or a variable is wrong.
    pub async fn run(
        request: &Request,
        activity: ActivityId,
        lacks_code: bool,
        endpoint: impl FnOnce(HumanCheck) -> Endpoint,
    ) -> Result<Self, ApiError> {
        let ip = request_address::address(request).await?;
        let eligible = Eligible::check(request, &activity, &ip, lacks_code).await;
        let eligible = eligible.inspect_err(|error| instance_counts::record_error(&activity, error))?;
        let Eligible { claims, cached_gate, activity: cached, now, needs_code } = eligible;
        let counts = instance_counts::take(&activity);
        let visitor = Visitor { activity, user: claims.sub.clone(), ip, counts };
        let admission = precheck(&SpinRedis, &visitor, endpoint(cached.spec.human_check)).await?;
        let rate_limits = admission.rate_limits;
        match admission.outcome {
            Ok(score) => {
                Ok(Self { claims, visitor, cached_gate, activity: cached, now, rate_limits, score, needs_code })
            }
            Err((code, wait_ms)) => {
                if code == Code::Banned {
                    let Visitor { activity, user, ip, .. } = &visitor;
                    let banned = (activity.clone(), user.clone(), ip.clone());
                    RECENT_BANS.with_borrow_mut(|bans| bans.record(banned, clock::now()));
                }
                let detail = match code {
                    Code::Banned => BANNED,
                    Code::RateLimited => "Too many requests: wait as Retry-After says.",
                    _ => "The sale is not loaded. An operator must publish it.",
                };
                Err(limits::add_to_problem(Problem::new(code, detail), wait_ms, &rate_limits).into())
            }
        }
    }

    /// Returns the activity and user that a human check is bound to.
    pub fn subject(&self) -> Subject<'_> {
        Subject { activity: &self.visitor.activity, user: &self.visitor.user }
    }
}

/// A signed-in visitor to whom the activity issues tickets now, as far as this instance knows.
struct Eligible {
    claims: Claims,
    cached_gate: Rc<CachedGate>,
    activity: Rc<CachedActivity>,
    now: Millis,
    needs_code: bool,
}

impl Eligible {
    /// Runs the checks that need no Redis call of this request.
    async fn check(request: &Request, activity: &ActivityId, ip: &str, lacks_code: bool) -> Result<Self, ApiError> {
        let now = clock::now();
        // A banned client that goes on costs no signature check, which takes most of the time here. The user may be
        // unverified: a forged token is refused in any case.
        let is_banned = RECENT_BANS.with_borrow(|bans| {
            let claimed = || request.bearer().and_then(|token| unverified_user(&token));
            let is_banned = |user| bans.contains(&(activity.clone(), user, ip.to_owned()), now);
            !bans.is_empty() && claimed().is_some_and(is_banned)
        });
        if is_banned {
            return Err(Problem::new(Code::Banned, BANNED).into());
        }
        let claims = match auth::verify_token(request).await? {
            Ok(claims) => claims,
            // A page that was left open sends an expired token: that is no abuse. An unconfirmed token is forged, or of a
            // key that the issuer has just published. It counts either way: an address with many only makes
            // its visitors suspicious, and no valid token is refused for it.
            Err(error) => {
                if error.may_be_forged() {
                    instance_counts::record_abuse(activity, ip.to_owned());
                }
                instance_counts::record_refused_sign_in(activity, error);
                return Err(auth::unauthenticated(error).await);
            }
        };
        let cached_gate = activity_cache::gate(activity).await?;
        let cached = activity_cache::activity(activity).await?;
        let now = cached_gate.redis_time(clock::now());
        check_issue_window(&cached_gate.snapshot.gate, now)?;
        let needs_code = match unmet_requirement(&cached.spec.eligibility, &claims) {
            Some(Requirement::Code) if !lacks_code => true,
            Some(Requirement::Code) => {
                return Err(not_eligible(Requirement::Code, "This sale asks for a presale code.").into());
            }
            Some(other) => return Err(not_eligible(other, "This sale is not open to your account.").into()),
            None => false,
        };
        Ok(Self { claims, cached_gate, activity: cached, now, needs_code })
    }
}

/// Returns the `not_eligible` error of a visitor who does not meet this condition.
pub fn not_eligible(requirement: Requirement, detail: &str) -> Problem {
    let mut problem = Problem::new(Code::NotEligible, detail);
    problem.extensions.requires = Some(requirement);
    problem
}

/// Parses the request body, which must be a JSON object or empty. An empty body is `T::default()`.
pub fn optional_body<T: Default + DeserializeOwned>(request: &Request) -> Result<T, Problem> {
    if request.body.is_empty() {
        return Ok(T::default());
    }
    // Serde skips members that `T` does not have, also if they are no valid JSON.
    let _: serde_json::Map<String, serde_json::Value> = domain::http::body::parse(&request.body)?;
    domain::http::body::parse(&request.body)
}
