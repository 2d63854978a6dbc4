//! The rush: every visit at its moment, winners followed to their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::observations::OrderSeen;
use super::order::follow;
use super::reserve::{Attempt, Outcome, reserve};
use super::session::Session;

/// What came of one visit.
#[derive(Debug)]
pub struct VisitReport {
    /// Which visit.
    pub index: usize,
    /// Order numbers by answer; more than one after a double click.
    pub answers: Vec<String>,
    /// How it ended, in a word or two.
    pub outcome: String,
    /// Whether an answer was lost.
    pub lost: bool,
    /// Whether the ticket was refused for good at least once.
    pub refused: bool,
    /// The order.
    pub order: Option<OrderSeen>,
}

/// Lets everybody in; `opened` is the moment, `jitter` the spread that the gate asked for.
pub async fn rush(session: &Arc<Session>, opened: Instant, jitter: Duration) -> Result<Vec<VisitReport>> {
    let mut visits = JoinSet::new();
    // Robots come on their own.
    for index in (0..session.visits.len()).filter(|index| !session.is_robot(session.visits[*index].buyer)) {
        let due = opened + offset(session, index, jitter);
        visits.spawn(visit(session.clone(), index, due));
    }
    let mut reports = Vec::with_capacity(session.visits.len());
    while let Some(report) = visits.join_next().await {
        reports.push(report.context("a buyer's task broke")?);
    }
    reports.sort_unstable_by_key(|report| report.index);
    Ok(reports)
}

fn offset(session: &Session, index: usize, jitter: Duration) -> Duration {
    match session.options.rate {
        Some(rate) => Duration::from_secs_f64(index as f64 / rate),
        None => jitter.mul_f64(session.visits[index].moment),
    }
}

async fn visit(session: Arc<Session>, index: usize, due: Instant) -> VisitReport {
    tokio::time::sleep_until(due.into()).await;
    let attempts = if session.visits[index].doubled {
        let (first, second) = tokio::join!(reserve(&session, index, due), reserve(&session, index, due));
        vec![first, second]
    } else {
        vec![reserve(&session, index, due).await]
    };
    session.progress.reserved.inc(1);
    let mut report = summarize(index, &attempts);
    if let Some((order_no, at)) = first_accepted(&attempts) {
        session.progress.orders.inc_length(1);
        report.order = Some(follow(&session, index, order_no, due, at).await);
        session.progress.orders.inc(1);
    }
    report
}

fn first_accepted(attempts: &[Attempt]) -> Option<(String, Instant)> {
    attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Accepted { at, order_no } => Some((order_no.clone(), *at)),
            Outcome::Refused(_) | Outcome::GaveUp(_) => None,
        })
        .min_by_key(|(_, at)| *at)
}

fn summarize(index: usize, attempts: &[Attempt]) -> VisitReport {
    let answers: Vec<String> = attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Accepted { order_no, .. } => Some(order_no.clone()),
            Outcome::Refused(_) | Outcome::GaveUp(_) => None,
        })
        .collect();
    let outcome = if answers.is_empty() {
        attempts.first().map_or_else(String::new, |attempt| match &attempt.outcome {
            Outcome::Refused(label) => label.clone(),
            Outcome::GaveUp(label) => format!("gave up: {label}"),
            Outcome::Accepted { .. } => String::new(),
        })
    } else {
        "accepted".to_owned()
    };
    VisitReport {
        index,
        answers,
        outcome,
        lost: attempts.iter().any(|attempt| attempt.lost),
        refused: attempts.iter().any(|attempt| matches!(attempt.outcome, Outcome::Refused(_))),
        order: None,
    }
}
