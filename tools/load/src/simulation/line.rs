//! The line of a sale (H1): buyers who wait for a unit, and robots who try to get one sooner.

pub mod options;
pub mod robot;
pub mod state;
pub mod summary;

use std::time::{Duration, Instant};

use super::{context::RunContext, observations::ObservedOrder, order::cancel, status_poller::StatusPoller};
use crate::wire::OrderStatus;

/// From joining to the first poll, as `Retry-After` of the `202` says.
const FIRST_POLL: Duration = Duration::from_secs(1);

/// A buyer who leaves does so within this time, at the earliest right after the `202`.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Polls an order that waits until it has a unit or has ended, at the latest when the line is over.
pub async fn wait_in_line(run: &RunContext, index: usize, order: &mut ObservedOrder, poller: &mut StatusPoller<'_>) {
    let visit = &run.visits[index];
    run.line.enter(visit.sku);
    let mut leave_at = visit.leaves_line.then(|| Instant::now() + LEAVE_WITHIN.mul_f64(fastrand::f64()));
    let mut poll_at = Instant::now() + FIRST_POLL;
    while order.status().is_none_or(|status| status == OrderStatus::Waiting) && !run.line.is_over() {
        let wake_at = leave_at.map_or(poll_at, |leave_at| leave_at.min(poll_at));
        tokio::select! {
            () = tokio::time::sleep_until(wake_at.into()) => {}
            () = run.line.wait_until_over() => break,
        }
        if leave_at.take_if(|leave_at| *leave_at <= Instant::now()).is_some() {
            cancel(run, order, &run.user_tokens[visit.buyer]).await;
        }
        poll_at = Instant::now() + poller.poll(order, Instant::now() + run.options.retry_timeout()).await;
    }
    if order.status().is_none_or(|status| status == OrderStatus::Waiting) {
        let deadline = Instant::now() + run.options.retry_timeout();
        poller.poll_until(order, deadline, |status| status != OrderStatus::Waiting).await;
    }
    run.line.begin_acting();
}
