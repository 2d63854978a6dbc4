//! How long one call of the sweeper may work.

use std::time::Duration;

/// How long one sweep works; a batch that has begun is finished.
pub const TIME_BUDGET: Duration = Duration::from_secs(10);
