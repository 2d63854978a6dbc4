//! A robot: refreshes while buyers wait for a SKU, and does not wait itself (I8).

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::{
    context::RunContext,
    gate,
    order::{cancel, observe},
    reserve::Accepted,
    visits::VisitReport,
};
use crate::{http::Call, meter::Step};

/// Mean pause between two tries.
const REFRESH_INTERVAL: Duration = Duration::from_millis(300);

/// Sends reservations from when a buyer first waits for the SKU until the line is over or the robot has a unit.
pub async fn run_robot(run: &RunContext, index: usize) -> VisitReport {
    let visit = &run.visits[index];
    let mut tickets = Tickets { last: Some(run.tickets[index].ticket.clone()), are_limited: false };
    let mut report = VisitReport::new(index, "robot without a unit".to_owned());
    run.line.wait_until_begun(visit.sku).await;
    while !run.line.is_over() {
        tokio::select! {
            () = tokio::time::sleep(REFRESH_INTERVAL.mul_f64(0.5 + fastrand::f64())) => {}
            () = run.line.wait_until_over() => break,
        }
        let Some(quantity) = unavailable_quantity(run, index) else { continue };
        let Some(ticket) = tickets.next(run, visit.buyer).await else { break };
        let deadline = Instant::now() + run.options.retry_timeout();
        let Some(start_key) = gate::wait_for_start_key(&mut run.gate.clone(), deadline).await else { break };
        let call = run.activity.reservation(visit.sku, quantity, &ticket, &start_key);
        let Ok(response) = run.app.send(Step::Robot, Instant::now(), &call).await else {
            report.outcome_uncertain = true;
            continue;
        };
        report.outcome_uncertain |= response.has_uncertain_outcome();
        let Some(order) = (response.status == 202).then(|| response.parse().ok()).flatten() else { continue };
        let accepted = Accepted { requested_at: response.sent_at, at: Instant::now(), order };
        let mut order = observe(run, index, &accepted);
        let has_unit = order.wait.is_none();
        if !has_unit {
            // The line was full a moment ago.
            cancel(run, &mut order, &run.user_tokens[visit.buyer]).await;
            tickets.last = None;
        }
        report.orders.push(order);
        if has_unit {
            report.outcome = "robot with a unit".to_owned();
            break;
        }
    }
    report
}

/// The tickets of a robot. The app limits those of a user; one that was refused may be sent again.
struct Tickets {
    last: Option<String>,
    are_limited: bool,
}

impl Tickets {
    /// A fresh ticket, or the last one if there is none.
    async fn next(&mut self, run: &RunContext, buyer: usize) -> Option<String> {
        if !self.are_limited {
            let call = Call::post(run.activity.path("/ticket"), &json!({})).with_authorization(&run.user_tokens[buyer]);
            if let Ok(response) = run.app.send(Step::Robot, Instant::now(), &call).await {
                self.last = response.text("ticket").ok().or(self.last.take());
                self.are_limited = response.status == 429;
            }
        }
        self.last.clone()
    }
}

/// A quantity that nobody gets while buyers wait: one unit if the line is full, else two, which cannot be waited for.
fn unavailable_quantity(run: &RunContext, index: usize) -> Option<u32> {
    let is_full = run.gate.borrow().sold_out.contains(&run.activity.skus[run.visits[index].sku]);
    match (is_full, run.options.per_user) {
        (true, _) => Some(1),
        (false, 1) => None,
        (false, _) => Some(2),
    }
}
