//! The instance's clock. What is decided in Redis uses Redis's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::time::Millis;

/// Now, by the machine that runs this instance.
#[must_use]
pub fn now() -> Millis {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Waits so many milliseconds.
pub async fn sleep(ms: i64) {
    spin_sdk::time::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or_default())).await;
}
