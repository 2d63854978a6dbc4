//! The instance's gate cache, and the requests that wait for one that refreshes it.

use std::{cell::RefCell, time::Duration};

use domain::{http::problem::Code, ids::ActivityId, time::Millis};
use platform::{
    clock,
    notify::{self, Notifier},
    timeout::with_timeout,
};
use sale::{
    gate_cache::{Decision, GateCache},
    reserve::{ReserveReply, ReserveRequest},
};

/// How long a request waits for another one that refreshes the gate; after that it calls Redis itself.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(500);

thread_local! {
    static CACHE: RefCell<GateCache<Notifier>> = RefCell::default();
}

/// Ends a refresh when it is dropped, however the request ends: the waiting requests wake.
pub struct RefreshGuard(ActivityId);

impl Drop for RefreshGuard {
    fn drop(&mut self) {
        CACHE.with_borrow_mut(|cache| cache.end_refresh(&self.0));
    }
}

/// Decides from the cache whether to send a reservation to Redis, or why to refuse it, with the wait in milliseconds
/// for `Retry-After` (0 is none). With a guard, request the gate in the reply, and keep the guard until [`update`] has
/// run.
pub async fn decide(request: &ReserveRequest) -> Result<Option<RefreshGuard>, (Code, i64)> {
    let activity = request.order_no.activity();
    loop {
        let (decision, refreshed) = CACHE.with_borrow_mut(|cache| {
            let decision = cache.decide(request, clock::now());
            let refreshed = (decision == Decision::Wait).then(|| {
                let (notifier, refreshed) = notify::channel();
                cache.add_waiter(activity, notifier);
                refreshed
            });
            (decision, refreshed)
        });
        match decision {
            Decision::Refuse(code, wait_ms) => return Err((code, wait_ms)),
            Decision::Send => return Ok(None),
            Decision::Refresh => return Ok(Some(RefreshGuard(activity.clone()))),
            Decision::Wait => {
                // Redis may keep the refreshing request waiting. The timeout bounds what that adds to this request's
                // time.
                if let Some(refreshed) = refreshed
                    && with_timeout(REFRESH_TIMEOUT, refreshed).await.is_none()
                {
                    return Ok(None);
                }
            }
        }
    }
}

/// Updates the cache from Redis's reply.
pub fn update(request: &ReserveRequest, reply: &ReserveReply) {
    CACHE.with_borrow_mut(|cache| cache.update(request, reply, clock::now()));
}

/// A moment of the instance's clock by Redis's clock.
pub fn redis_time(activity: &ActivityId, at: Millis) -> Millis {
    CACHE.with_borrow(|cache| cache.redis_time(activity, at))
}
