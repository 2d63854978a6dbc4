//! A robot: waits as a buyer does, and refreshes with more tickets for a unit that comes back (I8).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
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
pub async fn run_robot(run: &Arc<RunContext>, index: usize) -> Result<VisitReport> {
    let visit = &run.visits[index];
    let mut unused_ticket = None;
    let mut report = VisitReport::new(index, String::new());
    let mut driven = JoinSet::new();
    run.line.wait_until_begun(visit.sku).await;
    while !run.line.is_over() {
        tokio::select! {
            () = tokio::time::sleep(REFRESH_INTERVAL.mul_f64(0.5 + fastrand::f64())) => {}
            () = run.line.wait_until_over() => break,
        }
        if let Some(order) = driven.try_join_next() {
            report.orders.push(order.context("a robot's task broke")?);
            break;
        }
        if unused_ticket.is_none() {
            unused_ticket = fetch_ticket(run, visit.buyer).await;
        }
        let Some(ticket) = unused_ticket.take() else { continue };
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
        } else if response.status == 409 {
            unused_ticket = Some(ticket); // It made no order, and may be sent again.
        } else if let Some(order) = (response.status == 202).then(|| response.parse().ok()).flatten() {
            let accepted = Accepted { requested_at: response.sent_at, at: Instant::now(), order };
            run.line.begin_acting();
            driven.spawn(drive(run.clone(), index, accepted));
        }
    }
    while let Some(order) = driven.join_next().await {
        report.orders.push(order.context("a robot's task broke")?);
    }
    let had_unit = |at_once| report.orders.iter().any(|order| !order.is_entry() && order.wait.is_none() == at_once);
    report.outcome = match (had_unit(true), had_unit(false)) {
        (true, _) => "robot with a unit at once",
        (false, true) => "robot with a unit in its turn",
        (false, false) => "robot without a unit",
    }
    .to_owned();
    Ok(report)
}

async fn drive(run: Arc<RunContext>, index: usize, accepted: Accepted) -> ObservedOrder {
    let order = drive_order(&run, index, accepted).await;
    run.line.finish_acting();
    order
}

/// The app limits the tickets of a user. `None` if it issues none now.
async fn fetch_ticket(run: &RunContext, buyer: usize) -> Option<String> {
    let call = Call::post(run.activity.path("/ticket"), &json!({})).with_authorization(&run.user_tokens[buyer]);
    run.app.send(Step::Robot, Instant::now(), &call).await.ok()?.text("ticket").ok()
}
