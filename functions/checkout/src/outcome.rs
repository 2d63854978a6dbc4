//! Turns the outcome of a command into an order or a problem.

use domain::{
    http::problem::{Code, Problem},
    order::Order,
};
use payments::commands::CommandOutcome;
use platform::http::ApiError;

/// Returns the order after a command, or `state_conflict`. `goal` completes "it cannot be …".
pub fn order_or_conflict(outcome: CommandOutcome, goal: &str) -> Result<Order, ApiError> {
    let detail = match outcome {
        CommandOutcome::Done(order) => return Ok(*order),
        CommandOutcome::Conflict(order) => format!("The order is {}: it cannot be {goal}.", order.status.as_str()),
        // `routes` has found the order in Redis, but the order writer has not written it to the ledger yet.
        CommandOutcome::NotFound => {
            format!("The order is still queued: it cannot be {goal} yet. Poll until it is pending.")
        }
    };
    Err(Problem::new(Code::StateConflict, detail).into())
}
