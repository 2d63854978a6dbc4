//! Brings Redis in line with a command.

use payments::commands::Decided;
use platform::{http::after_response, redis::SpinRedis};

/// Syncs the order that a command changed, after the response.
pub fn sync_later(decided: Decided) {
    after_response(async move { decided.sync(&SpinRedis).await });
}
