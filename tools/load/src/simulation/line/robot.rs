//! A robot: waits as a buyer does, and refreshes with more tickets for a unit that comes back (I8).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinSet;

use super::super::{
    context::RunContext, gate, observations::ObservedOrder, order::drive_order, reserve::Accepted, visits::VisitReport,
};
use crate::{http::Call, meter::Step};

/// Mean pause between two tries.
const REFRESH_INTERVAL: Duration = Duration::from_millis(300);

/// Sends reservations of one unit from when a buyer first waits for the SKU until the line is over or the robot has had a unit.
/// The first may join the line, if that has room.
pub async fn run_robot(run: &Arc<RunContext>, index: usize) -> VisitReport {
    let visit = &run.visits[index];
    let mut tickets = Tickets::default();
    let mut report = VisitReport::new(index, String::new());
    let mut driven = JoinSet::new();
    run.line.wait_until_begun(visit.sku).await;
    while !run.line.is_over() {
        tokio::select! {
            () = tokio::time::sleep(REFRESH_INTERVAL.mul_f64(0.5 + fastrand::f64())) => {}
            () = run.line.wait_until_over() => break,
        }
        if let Some(order) = driven.try_join_next() {
            report.orders.push(order.expect("driving an order does not panic"));
            break;
        }
        let Some(ticket) = tickets.next(run, visit.buyer).await else { continue };
        let deadline = Instant::now() + run.options.retry_timeout();
        let Some(start_key) = gate::wait_for_start_key(&mut run.gate.clone(), deadline).await else { break };
        let call = run.activity.reservation(visit.sku, visit.quantity, &ticket, &start_key);
        let Ok(response) = run.app.send(Step::Robot, Instant::now(), &call).await else {
            report.outcome_uncertain = true;
            continue;
        };
        report.robot_tries += 1;
        if response.has_uncertain_outcome() {
            report.outcome_uncertain = true;
        } else if response.status != 202 {
            tickets.unused = Some(ticket);
        } else if let Ok(order) = response.parse() {
            let accepted = Accepted { requested_at: response.sent_at, at: Instant::now(), order };
            run.line.begin_acting();
            driven.spawn(drive(run.clone(), index, accepted));
        }
    }
    while let Some(order) = driven.join_next().await {
        report.orders.push(order.expect("driving an order does not panic"));
    }
    let had_unit = |at_once| report.orders.iter().any(|order| !order.is_entry() && order.wait.is_none() == at_once);
    report.outcome = match (had_unit(true), had_unit(false)) {
        (true, _) => "robot with a unit at once",
        (false, true) => "robot with a unit in its turn",
        (false, false) => "robot without a unit",
    }
    .to_owned();
    report
}

async fn drive(run: Arc<RunContext>, index: usize, accepted: Accepted) -> ObservedOrder {
    let order = drive_order(&run, index, accepted).await;
    run.line.finish_acting();
    order
}

/// The tickets of a robot. The app limits those of a user; one that made no order may be sent again.
#[derive(Default)]
struct Tickets {
    unused: Option<String>,
    are_limited: bool,
}

impl Tickets {
    /// A fresh ticket, else the unused one, if there is one.
    async fn next(&mut self, run: &RunContext, buyer: usize) -> Option<String> {
        if !self.are_limited || self.unused.is_none() {
            let call = Call::post(run.activity.path("/ticket"), &json!({})).with_authorization(&run.user_tokens[buyer]);
            if let Ok(response) = run.app.send(Step::Robot, Instant::now(), &call).await {
                self.are_limited = response.status == 429;
                if let Ok(ticket) = response.text("ticket") {
                    return Some(ticket);
                }
            }
        }
        self.unused.take()
    }
}
