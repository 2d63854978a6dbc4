//! Turns the outcome of a command into an order or a problem, and brings Redis in line.

use domain::{
    http::problem::{Code, Problem},
    order::Order,
};
use payments::commands::{CommandOutcome, Decided};
use platform::{
    http::{ApiError, after_response},
    redis::SpinRedis,
};

/// Returns the order after a command, or `state_conflict`. `goal` completes "it cannot be …".
pub fn order_or_conflict<'a>(outcome: &'a CommandOutcome, goal: &str) -> Result<&'a Order, ApiError> {
    let detail = match outcome {
        CommandOutcome::Done(order) => return Ok(order),
        CommandOutcome::Conflict(order) => format!("The order is {}: it cannot be {goal}.", order.status.as_str()),
        // `routes` has found the order in Redis, but the order writer has not written it to the ledger yet.
        CommandOutcome::NotFound => {
            format!("The order is still queued: it cannot be {goal} yet. Poll until it is pending.")
        }
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}

/// Syncs the order that a command changed, after the response.
pub fn sync_later(decided: Decided) {
    after_response(async move { decided.sync(&SpinRedis).await });
}
