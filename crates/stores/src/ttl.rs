//! Copies in an instance's memory that are at most a second old (F1, C8).

use domain::time::Millis;

/// The age at which a copy is fetched again, in milliseconds. The rest of the second is for the fetch.
const MAX_AGE_MS: i64 = 900;

/// How long other requests may use the old copy while one request fetches, in milliseconds; with [`MAX_AGE_MS`], a
/// second in all.
const STALE_WHILE_REFRESH_MS: i64 = 100;

/// Whether a copy made at `at` is at most `max_age_ms` old. A copy from the future is not: the clock was set back, and
/// its age is unknown.
pub fn is_fresh(at: Millis, now: Millis, max_age_ms: i64) -> bool {
    (0..=max_age_ms).contains(&(now.0 - at.0))
}

/// Whether a copy made at `at` may be used, while a request fetches it anew or not.
pub fn is_usable(at: Millis, now: Millis, is_fetching: bool) -> bool {
    is_fresh(at, now, if is_fetching { MAX_AGE_MS + STALE_WHILE_REFRESH_MS } else { MAX_AGE_MS })
}
