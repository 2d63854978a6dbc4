//! Limits of a client's requests in an instance's memory (B4): no store decides them.
//!
//! Each instance counts for itself, and the engine ends it after a number of requests: these limits bound what a client
//! costs an instance. What it may send at all is limited by the proxy in front of the app.

use std::collections::HashMap;

use domain::time::{Millis, ceil_seconds};

use super::limits::RateLimitStatus;

/// Maximum number of buckets. When it is reached, full ones are removed; if none is full, all.
const MAX_BUCKETS: usize = 1_024;

/// Requests of polling: 20 a second. Pages poll once a second.
pub const POLLS: Rate = Rate { interval_us: 50_000, burst: 60 };

/// Requests that cost a signature, and a statement or a call of the payment provider: 10 a second.
pub const SIGNED_IN: Rate = Rate { interval_us: 100_000, burst: 60 };

/// A token bucket's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Microseconds until one more request is allowed.
    interval_us: i64,
    /// Requests at once.
    burst: i64,
}

impl Rate {
    /// State of an empty bucket, for the headers of the refusal.
    #[must_use]
    pub fn used_up(self, wait_ms: i64) -> RateLimitStatus {
        let (quota, window_seconds) = (self.burst, ceil_seconds(self.interval_us * self.burst / 1_000));
        let reset_seconds = ceil_seconds(wait_ms);
        RateLimitStatus { name: "client".to_owned(), quota, window_seconds, remaining: 0, reset_seconds }
    }
}

/// Token buckets by client.
#[derive(Debug, Default)]
pub struct ClientLimits {
    /// When each bucket is full again, in microseconds since 1970.
    full_at: HashMap<String, i64>,
}

impl ClientLimits {
    /// Takes a token from the client's bucket.
    ///
    /// # Errors
    /// Milliseconds until the next one, if the bucket is empty.
    pub fn take(&mut self, client: &str, rate: Rate, now: Millis) -> Result<(), i64> {
        let (now, size) = (now.0 * 1_000, rate.interval_us * rate.burst);
        if self.full_at.len() >= MAX_BUCKETS && !self.full_at.contains_key(client) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= MAX_BUCKETS {
                self.full_at.clear();
            }
        }
        if !self.full_at.contains_key(client) {
            self.full_at.insert(client.to_owned(), now);
        }
        let Some(full_at) = self.full_at.get_mut(client) else { return Ok(()) };
        // The second bound is for a clock that was set back.
        *full_at = (*full_at).clamp(now, now + size);
        let next = *full_at + rate.interval_us;
        if next - now > size {
            return Err((next - now - size).div_euclid(1_000) + 1);
        }
        *full_at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { interval_us: 100_000, burst: 3 };

    #[test]
    fn a_client_gets_its_burst_then_its_rate_and_others_are_not_affected() {
        let mut limits = ClientLimits::default();
        let mut take = |client: &str, now| limits.take(client, RATE, Millis(now));
        assert_eq!([0, 0, 0].map(|now| take("eve", now)), [Ok(()); 3]);
        assert_eq!(take("eve", 0), Err(101));
        assert_eq!(take("ada", 0), Ok(()));
        assert_eq!([99, 100, 101].map(|now| take("eve", now)), [Err(2), Ok(()), Err(100)]);
        assert_eq!([10_000; 4].map(|now| take("eve", now)), [Ok(()), Ok(()), Ok(()), Err(101)]);
        assert_eq!([5_000, 5_101].map(|now| take("eve", now)), [Err(101), Ok(())], "the clock was set back");
    }

    #[test]
    fn the_buckets_are_bounded() {
        let mut limits = ClientLimits::default();
        for n in 0..10 * MAX_BUCKETS as i64 {
            assert_eq!(limits.take(&n.to_string(), RATE, Millis(n)), Ok(()));
            assert!(limits.full_at.len() <= MAX_BUCKETS);
        }
    }
}
