//! Runs all visits at their planned times, including what winners do with their orders.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::{
    context::RunContext,
    line::robot::run_robot,
    observations::ObservedOrder,
    order::drive_order,
    reserve::{Accepted, Outcome, reserve},
};

#[derive(Debug)]
pub struct VisitReport {
    pub index: usize,
    /// Order numbers, one for each `202`; two after an accepted double click.
    pub order_nos: Vec<String>,
    /// How it ended, as the report counts it, such as `accepted` or `409 sold_out`.
    pub outcome: String,
    /// Whether the outcome of a try is unknown, as in [`super::reserve::Attempt::uncertain_since`].
    pub outcome_uncertain: bool,
    /// Whether the ticket was refused for good at least once, by a refusal that says that it made no order.
    pub refused: bool,
    pub orders: Vec<ObservedOrder>,
    /// The reservations of a robot that were answered.
    pub robot_tries: usize,
}

impl VisitReport {
    /// A report without orders.
    pub fn new(index: usize, outcome: String) -> Self {
        Self {
            index,
            order_nos: Vec::new(),
            outcome,
            outcome_uncertain: false,
            refused: false,
            orders: Vec::new(),
            robot_tries: 0,
        }
    }
}

/// Starts all visits. Each is due at `opened_at` plus its part of `jitter` (or by `--rate`).
pub async fn run_visits(run: &Arc<RunContext>, opened_at: Instant, jitter: Duration) -> Result<Vec<VisitReport>> {
    let mut visits = JoinSet::new();
    for index in 0..run.visits.len() {
        let due = opened_at + start_delay(run, index, jitter);
        visits.spawn(run_visit(run.clone(), index, due));
    }
    let mut reports = Vec::with_capacity(run.visits.len());
    while let Some(report) = visits.join_next().await {
        reports.push(report.context("a buyer's task broke")??);
    }
    reports.sort_unstable_by_key(|report| report.index);
    Ok(reports)
}

fn start_delay(run: &RunContext, index: usize, jitter: Duration) -> Duration {
    match run.options.rate {
        Some(rate) => Duration::from_secs_f64(index as f64 / rate),
        None => jitter.mul_f64(run.visits[index].start_fraction),
    }
}

async fn run_visit(run: Arc<RunContext>, index: usize, due: Instant) -> Result<VisitReport> {
    if run.visits[index].is_robot {
        let report = run_robot(&run, index).await;
        run.progress.reserved.inc(1);
        return report;
    }
    tokio::time::sleep_until(due.into()).await;
    let attempts = if run.visits[index].double_click {
        let (first, second) = tokio::join!(reserve(&run, index, due), reserve(&run, index, due));
        vec![first, second]
    } else {
        vec![reserve(&run, index, due).await]
    };
    run.progress.reserved.inc(1);
    let accepted: Vec<_> = attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Accepted(accepted) => Some(accepted.clone()),
            Outcome::Refused(_) | Outcome::GaveUp(_) => None,
        })
        .collect();
    let outcome = match &attempts[0].outcome {
        Outcome::Refused(label) if accepted.is_empty() => label.clone(),
        Outcome::GaveUp(label) if accepted.is_empty() => format!("gave up: {label}"),
        _ => "accepted".to_owned(),
    };
    let mut report = VisitReport {
        order_nos: accepted.iter().map(|accepted| accepted.order.order_no.clone()).collect(),
        outcome_uncertain: attempts.iter().any(|attempt| attempt.uncertain_since.is_some()),
        refused: attempts
            .iter()
            .any(|attempt| matches!(&attempt.outcome, Outcome::Refused(label) if label != "409 sold_out")),
        ..VisitReport::new(index, outcome)
    };
    // Either request of a double click may have made the order.
    let uncertain_since = attempts.iter().filter_map(|attempt| attempt.uncertain_since);
    let requested_at = accepted.iter().map(|accepted| accepted.requested_at).chain(uncertain_since).min();
    if let Some((first, requested_at)) = accepted.into_iter().min_by_key(|accepted| accepted.at).zip(requested_at) {
        run.progress.orders.inc_length(1);
        report.orders.push(drive_order(&run, index, Accepted { requested_at, ..first }).await);
        run.progress.orders.inc(1);
    }
    run.line.finish_acting();
    Ok(report)
}
