//! The instance's clock. What is decided in Redis uses Redis's.

use std::time::{SystemTime, UNIX_EPOCH};

use stampede_domain::time::Millis;

/// Now, by the machine that runs this instance.
#[must_use]
pub fn now() -> Millis {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}
