//! The instance's clock. Scripts in Redis use Redis's clock instead.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::time::Millis;

/// Returns the current time of the machine that runs this instance.
#[must_use]
pub fn now() -> Millis {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Sleeps for `ms` milliseconds; a negative value is 0.
pub async fn sleep(ms: i64) {
    spin_sdk::time::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or_default())).await;
}
