//! Compares the gates in Redis with the ledger (G4, G5).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use domain::{ids::ActivityId, time::Millis};
use futures::future::join_all;
use orders::{
    resend::resend,
    stream::{self, FenceOutcome, Waiting},
};
use sale::{
    ledger::{
        activities::{self, ExpectedGate},
        epochs,
    },
    warm_up::{Mode, WarmUpOutcome, warm_up},
};
use stores::ports::{Redis, Sql, StoreError};

use crate::{
    commands::activities::{OperationOutcome, OperatorContext},
    ledger::rebuilds,
    upkeep::{budget::Budget, report::Report},
};

/// How long an operator's change is left to the request that makes it before the sweeper completes or undoes it, in
/// milliseconds.
const CHANGE_GRACE_MS: i64 = 10_000;

/// How long gates are corrected in one sweep; the correction that has begun is finished.
const CORRECTION_TIME: Duration = Duration::from_secs(2);

/// Steps of 500 queued orders that one sweep looks at. Lost ones are left when the rest of a longer queue is written.
const RESEND_STEPS: usize = 20;

/// The gates of a sweep.
pub struct ComparedGates {
    /// The activities that have messages in their stream.
    pub with_messages: BTreeSet<ActivityId>,
    /// What the ledger expects of each gate, and what Redis has.
    outcomes: Vec<(ExpectedGate, FenceOutcome)>,
}

impl ComparedGates {
    /// The activities that Redis has whole: it neither lost orders, nor is rebuilt.
    pub fn whole(&self) -> Vec<ActivityId> {
        let whole = self.outcomes.iter().filter(|(_, outcome)| matches!(outcome, FenceOutcome::Current { .. }));
        whole.map(|(gate, _)| gate.id.clone()).collect()
    }
}

/// Compares every gate with the ledger. A gate of an older epoch is stopped: an old Redis came back, and the ledger would
/// refuse the orders that it accepts (G5). [`correct_gates`] does the rest.
///
/// # Errors
/// [`StoreError`] of the ledger, on loading the activities. An activity that Redis fails on is recorded in the report.
pub async fn compare_gates<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    listed: &[ActivityId],
    now: Millis,
    report: &mut Report,
) -> Result<ComparedGates, StoreError> {
    let expected = activities::expected_gates(sql, listed, now).await?;
    // All gates are read concurrently.
    let fences = expected.iter().map(|gate| stream::fence(redis, &gate.id, gate.last_order, &[]));
    let fenced = join_all(fences).await;
    let mut gates = ComparedGates { with_messages: BTreeSet::new(), outcomes: Vec::new() };
    for (expected, fenced) in expected.into_iter().zip(fenced) {
        let compared = match fenced {
            Ok((outcome, waiting)) => {
                has_messages(redis, sql, &expected.id, waiting, now, report).await.map(|has| (outcome, has))
            }
            Err(error) => Err(error),
        };
        match compared {
            Ok((outcome, has_messages)) => {
                if has_messages {
                    gates.with_messages.insert(expected.id.clone());
                }
                gates.outcomes.push((expected, outcome));
            }
            Err(error) => report.add_failure(&expected.id, &error),
        }
    }
    Ok(gates)
}

/// Sends queued orders of an activity again whose messages are gone. Returns whether its stream has messages.
async fn has_messages<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    waiting: Waiting,
    now: Millis,
    report: &mut Report,
) -> Result<bool, StoreError> {
    if waiting.orders == 0 {
        return Ok(waiting.messages > 0);
    }
    let found = resend(redis, sql, activity, now, RESEND_STEPS).await?;
    report.resent += found.resent;
    report.newer += found.newer;
    if found.resent + found.unreadable > 0 {
        let because = format!("{} were sent again, {} are dead letters", found.resent, found.unreadable);
        report.add_notice("queued orders had no message", "activity", activity, because);
    }
    Ok(waiting.messages > 0 || found.resent > 0)
}

/// Corrects the gates that differ from the ledger.
///
/// - A gate of a later epoch raises the epoch of the ledger, which was restored from a backup: otherwise Redis would
///   ignore all transitions.
/// - A stopped gate is rebuilt in the sweep's next step: Redis has lost orders (G16). So is one whose rebuild nobody
///   continues, later.
/// - A gate of an older version is warmed up: an operator's change did not reach Redis. A change that may still be
///   under way is left alone.
/// - A gate of a later version, or with totals lowered for one, belongs to a request that died, or to a ledger that was
///   restored: both stores get a version that is later still, so that the request cannot finish its change.
///
/// An activity that a store fails on is recorded in the report. Gates that were not corrected when the time was up are left
/// to the next sweep. `rotation` grows from sweep to sweep: each begins with another gate.
pub async fn correct_gates<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    ComparedGates { mut outcomes, .. }: ComparedGates,
    ticket_secret: &str,
    rotation: i64,
    now: Millis,
    report: &mut Report,
) {
    let rebuild_budget = Budget { time: Duration::ZERO, ..Budget::SWEEP };
    let nonce = String::new();
    let operator = OperatorContext { redis, sql, ticket_secret, now, nonce, rebuild_budget, may_change_money: false };
    let first = usize::try_from(rotation).unwrap_or_default().checked_rem(outcomes.len()).unwrap_or_default();
    outcomes.rotate_left(first);
    let started = Instant::now();
    for (expected, outcome) in outcomes {
        if started.elapsed() > CORRECTION_TIME {
            report.more = true;
            break;
        }
        sql.forget_timeouts();
        if let Err(error) = correct(&operator, &expected, outcome, report).await {
            report.add_failure(&expected.id, &error);
        }
    }
    sql.forget_timeouts();
}

async fn correct<R: Redis, S: Sql>(
    operator: &OperatorContext<'_, R, S>,
    expected: &ExpectedGate,
    outcome: FenceOutcome,
    report: &mut Report,
) -> Result<(), StoreError> {
    match outcome {
        FenceOutcome::NoGate => report.without_gate += usize::from(expected.required),
        FenceOutcome::Restoring(epoch) => {
            report.without_gate += usize::from(expected.required);
            // If a failover has brought it back, no row says that it has to be finished.
            let due_at = operator.now.plus(Budget::REQUEST.left_to_caller_ms);
            rebuilds::schedule(operator.sql, &expected.id, expected.version, epoch - 1, due_at, Millis(0)).await?;
        }
        FenceOutcome::Stopped(lost) | FenceOutcome::Fenced(lost) => {
            let is_fenced = matches!(outcome, FenceOutcome::Fenced(_));
            report.fenced += usize::from(is_fenced);
            report.stopped += usize::from(!is_fenced);
            let because = format!("it has lost orders up to number {} of epoch {}", lost.sequence, lost.epoch);
            report.add_notice("Redis lost orders of a sale, which is rebuilt", "activity", &expected.id, because);
            let epoch = lost.epoch.max(expected.last_order.epoch);
            rebuilds::schedule(operator.sql, &expected.id, expected.version, epoch, operator.now, operator.now).await?;
        }
        FenceOutcome::Newer(gate_epoch) => {
            let raised = epochs::raise_to(operator.sql, &expected.id, gate_epoch).await?;
            report.caught_up += usize::from(raised);
        }
        FenceOutcome::Current { version, .. }
            if version < expected.version && operator.now >= expected.changed_at.plus(CHANGE_GRACE_MS) =>
        {
            let Some(activity) = activities::load(operator.sql, &expected.id).await? else { return Ok(()) };
            let warmed_up = warm_up(operator.redis, &activity, operator.ticket_secret, Mode::IfOlder).await?;
            report.warmed_up += usize::from(warmed_up == WarmUpOutcome::Done);
        }
        FenceOutcome::Current { version, lowered, unchanged_ms }
            if version.max(lowered) > expected.version && unchanged_ms >= CHANGE_GRACE_MS =>
        {
            let realigned = operator.realign(&expected.id).await?;
            report.warmed_up += usize::from(matches!(realigned, OperationOutcome::Done(_)));
        }
        FenceOutcome::Current { .. } => {}
    }
    Ok(())
}
