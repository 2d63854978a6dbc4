//! Rebuilds an activity's data in Redis from the ledger (G5), in calls of bounded duration.
//!
//! A rebuild runs only while nothing is sold. It never oversells: units that the ledger holds are subtracted from the
//! total before the gate is open again.
//!
//! Each rebuild starts a new epoch, which is raised in the ledger first. Orders that an older epoch accepted and the
//! ledger does not have are refused from then on: a late writer leaves dead letters, never an order that Redis does not
//! count. While the gate is marked `restoring`, transitions of the ledger wait; afterwards each finds its order's
//! record, counted with the status that was read.
//!
//! Orders and transitions that Redis has and the ledger lacks, because it was restored from a backup, are written to
//! the ledger first ([`crate::upkeep::backfill`]).
//!
//! A call that stops anywhere leaves an activity that sells nothing. The next call continues where it ended: the row in
//! `rebuilds` has the position of the backfill, and the gate of the new epoch has the last order restored, written by
//! the script that restored it. Two callers at once repeat each other's work at worst. The sweeper continues a rebuild
//! that no request continues.

mod line;

use std::time::Instant;

use domain::{
    activity::{ActivityState, Sku},
    ids::ActivityId,
    time::Millis,
};
use orders::{
    ledger::{line_entries::Cursor, order_rows},
    order_writer::{self, time_since},
    resend::resend,
};
use sale::{
    ledger::{
        activities::{self, Activity},
        epochs,
    },
    warm_up::{Mode, WarmUpOutcome, warm_up},
};
use schemars::JsonSchema;
use serde::Serialize;
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
    reply::{Reply, unexpected},
};

use crate::{
    commands::{bans, shed},
    ledger::rebuilds::{self, BegunRebuild},
    scripts::{FINISH, RESET},
    upkeep::{
        backfill::{BackfillProgress, backfill, count_indexed},
        budget::{Budget, Timer},
        found_gate::FoundGate,
        restore::{RestoreOutcome, Source, restore},
    },
};

/// How often a call starts over while others raise the epoch.
const MAX_ATTEMPTS: usize = 4;

/// What a rebuild that is not done is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Step {
    /// Writes the orders that wait in the stream.
    Drain,
    /// Compares the order records in Redis with the ledger, and writes what the ledger lacks.
    Backfill,
    /// Puts the ledger's orders back into Redis.
    Restore,
}

/// How far a rebuild is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RebuildProgress")]
pub struct Progress {
    /// What it is doing.
    pub step: Step,
    /// Orders compared or restored in this step.
    #[schemars(range(min = 0))]
    pub orders: i64,
    /// Orders of this step in all; the orders that wait while it drains. A backfill that finds differences compares
    /// all orders three times.
    #[schemars(range(min = 0))]
    pub total: i64,
    /// The epoch that starts with it. Name it in the next call: the rebuild may be done by then.
    #[schemars(range(min = 1))]
    pub epoch: i64,
}

/// Result of [`Rebuild::run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildOutcome {
    /// Redis matches the ledger.
    Done {
        /// Orders restored.
        orders: i64,
        /// The epoch that started.
        epoch: i64,
    },
    /// The time is up: repeat the call to continue.
    Running(Progress),
    /// There is no such activity.
    NotFound,
    /// The activity is a draft: there is nothing to rebuild.
    Draft,
    /// The gate is published: the activity must be paused or closed first.
    Open,
    /// Orders are still in the stream, and could not be written now.
    Queued,
    /// The ledger does not have the SKU of a paid order (any more): a rebuild would lose that order.
    SkuLost,
    /// Other rebuilds, of later epochs, are at work.
    Fenced,
}

/// A rebuild of one activity's data in Redis from the ledger.
pub struct Rebuild<'a, R, S> {
    /// Redis.
    pub redis: &'a R,
    /// The ledger.
    pub sql: &'a S,
    /// The activity.
    pub activity: &'a ActivityId,
    /// Secret from which the start key is derived.
    pub ticket_secret: &'a str,
    /// Current time.
    pub now: Millis,
    /// How much one call does.
    pub budget: Budget,
}

#[derive(Serialize)]
struct ResetOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    new_epoch: Option<i64>,
    gate_epoch: i64,
    to_restore: i64,
}

/// Why a step does not go on to the next one.
enum Stop {
    Outcome(RebuildOutcome),
    /// Another request created a gate, or raised the epoch: read both again.
    Overtaken,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl<R: Redis, S: Sql> Rebuild<'_, R, S> {
    /// Rebuilds, or continues a rebuild that has begun, until the time is up. With `epoch`, as [`Progress`] returned
    /// it, a rebuild of that epoch or a later one that has ended meanwhile is `Done`; otherwise a new one begins.
    ///
    /// # Errors
    /// [`StoreError`]; the activity may sell nothing until the call is repeated. The sweeper repeats it as well.
    pub async fn run(&self, epoch: Option<i64>) -> Result<RebuildOutcome, StoreError> {
        let timer = Timer::start(self.budget, self.now);
        let mut wanted_epoch = epoch;
        for _ in 0..MAX_ATTEMPTS {
            let outcome = match self.attempt(&mut wanted_epoch, &timer).await {
                Ok(outcome) | Err(Stop::Outcome(outcome)) => outcome,
                Err(Stop::Overtaken) => continue,
                Err(Stop::Failed(error)) => return Err(error),
            };
            if !matches!(outcome, RebuildOutcome::Running(_)) {
                // If the row stays, the sweeper finds the rebuild done, and deletes it.
                let _ = rebuilds::end(self.sql, self.activity).await;
            }
            return Ok(outcome);
        }
        Ok(RebuildOutcome::Fenced)
    }

    async fn attempt(&self, wanted_epoch: &mut Option<i64>, timer: &Timer) -> Result<RebuildOutcome, Stop> {
        let mut activity = self.load_activity().await?;
        if activity.state == ActivityState::Draft {
            return Ok(RebuildOutcome::Draft);
        }
        let gate = FoundGate::read(self.redis, self.activity).await?;
        let has_begun = gate.is_restoring && gate.epoch == activity.epoch;
        let epoch_before = if has_begun { gate.epoch - 1 } else { gate.latest_epoch().max(activity.epoch) };
        let wanted_epoch = *wanted_epoch.get_or_insert(epoch_before + 1);
        // A gate whose epoch is not older decides whether the activity is open: a ledger that was restored may be wrong
        // about it.
        if gate.is_complete() && gate.epoch >= activity.epoch {
            if gate.epoch >= wanted_epoch {
                return Ok(RebuildOutcome::Done { orders: gate.restored, epoch: gate.epoch });
            }
            if gate.is_published {
                return Ok(RebuildOutcome::Open);
            }
        }
        let due_at = self.now.plus(self.budget.left_to_caller_ms);
        let lost_at = if gate.lost_epoch > 0 { self.now } else { Millis(0) };
        let begun = rebuilds::begin(self.sql, self.activity, activity.version, epoch_before, due_at, lost_at).await?;
        let lost_at = begun.lost_at;
        if has_begun {
            return self.restore_orders(gate, timer).await;
        }
        if gate.latest_epoch() > activity.epoch {
            activity.epoch = gate.latest_epoch();
            epochs::raise_to(self.sql, self.activity, activity.epoch).await?;
        }
        self.drain(epoch_before, timer).await?;
        if gate.epoch > 0 {
            self.backfill(&gate, begun, timer).await?;
            self.backfill_line(timer.now()).await?;
        }
        let gate = self.start_epoch(&activity, &gate, lost_at).await?;
        self.restore_orders(gate, timer).await
    }

    async fn load_activity(&self) -> Result<Activity, Stop> {
        let activity = activities::load(self.sql, self.activity).await?;
        activity.ok_or(Stop::Outcome(RebuildOutcome::NotFound))
    }

    /// Writes what is left in the stream, so that the ledger has every order. Messages that cannot be written stay.
    async fn drain(&self, epoch_before: i64, timer: &Timer) -> Result<(), Stop> {
        let stream = Keys::of(self.activity).named("orders");
        let mut waiting_before = None;
        resend(self.redis, self.sql, self.activity, timer.now(), usize::MAX).await?;
        loop {
            let waiting = Reply::new(self.redis.command("XLEN", vec![stream.as_str().into()]).await?).int()?;
            if waiting == 0 || waiting_before == Some(waiting) {
                return Ok(());
            }
            if waiting_before.is_some() && timer.is_up() {
                let progress = Progress { step: Step::Drain, orders: 0, total: waiting, epoch: epoch_before + 1 };
                return Err(Stop::Outcome(RebuildOutcome::Running(progress)));
            }
            waiting_before = Some(waiting);
            let reclaimed = order_writer::write_reclaimed(self.redis, self.sql, self.activity, timer.now(), 0).await?;
            if reclaimed.unanswered > 0 {
                // The new epoch would fail these orders (D8).
                let text = "it gave no answer about an order in the stream".to_owned();
                return Err(StoreError::LedgerUnavailable(text).into());
            }
            order_writer::write_new(self.redis, self.sql, self.activity, timer.now()).await?;
        }
    }

    async fn backfill(&self, gate: &FoundGate, begun: BegunRebuild, timer: &Timer) -> Result<(), Stop> {
        let epoch = begun.epoch + 1;
        match backfill(self.redis, self.sql, self.activity, gate.epoch, begun, timer).await {
            Ok(BackfillProgress::Done) => Ok(()),
            Ok(BackfillProgress::Compared(orders)) => {
                let total = count_indexed(self.redis, &Keys::of(self.activity)).await?;
                let progress = Progress { step: Step::Backfill, orders, total, epoch };
                Err(Stop::Outcome(RebuildOutcome::Running(progress)))
            }
            Err(StoreError::LedgerRefused(_)) => Err(Stop::Outcome(RebuildOutcome::SkuLost)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes `gate`, raises the epoch, and creates the gate of the new epoch.
    async fn start_epoch(&self, activity: &Activity, gate: &FoundGate, lost_at: Millis) -> Result<FoundGate, Stop> {
        self.reset(gate.epoch, &activity.spec.skus, None).await?;
        let raised = epochs::raise(self.sql, self.activity, activity.epoch, gate.epoch, lost_at).await?;
        let epoch = raised.ok_or(Stop::Overtaken)?;
        let to_restore = order_rows::count(self.sql, self.activity).await?;
        self.reset(gate.epoch, &activity.spec.skus, Some((epoch, to_restore))).await?;
        let restored_after = String::new();
        Ok(FoundGate {
            epoch,
            is_published: false,
            lost_epoch: 0,
            is_restoring: true,
            restored: 0,
            restored_after,
            to_restore,
            line_after: Cursor::default(),
        })
    }

    /// Deletes the gate, which had `gate_epoch`. With a new epoch and the number of orders to restore, also deletes
    /// stream, counters, stock, holders, index and the line, and creates the gate of that epoch, marked `restoring`.
    async fn reset(&self, gate_epoch: i64, skus: &[Sku], new_gate: Option<(i64, i64)>) -> Result<(), Stop> {
        let keys = Keys::of(self.activity);
        let mut script_keys = keys.all(["gate", "queued", "orders", "stats", "index", "holders", "entries"]);
        script_keys.extend(skus.iter().map(|sku| keys.line(&sku.sku)));
        let options = ResetOptions {
            new_epoch: new_gate.map(|(epoch, _)| epoch),
            gate_epoch,
            to_restore: new_gate.map_or(0, |(_, to_restore)| to_restore),
        };
        match RESET.run_with(self.redis, script_keys, &options).await?.text()?.as_str() {
            "forgotten" => Ok(()),
            "open" => Err(Stop::Outcome(RebuildOutcome::Open)),
            "queued" => Err(Stop::Outcome(RebuildOutcome::Queued)),
            "fenced" => Err(Stop::Overtaken),
            word => Err(unexpected(word).into()),
        }
    }

    /// Restores the orders after `gate.restored_after`, and opens the gate.
    async fn restore_orders(&self, mut gate: FoundGate, timer: &Timer) -> Result<RebuildOutcome, Stop> {
        // Load it here: every change of the activity comes after the new epoch, or after the previous call.
        let activity = self.load_activity().await?;
        if activity.epoch != gate.epoch
            || warm_up(self.redis, &activity, self.ticket_secret, Mode::Rebuild).await? == WarmUpOutcome::NoGate
        {
            return Err(Stop::Overtaken);
        }
        bans::copy_to_redis(self.redis, self.sql, self.activity, timer.now()).await?;
        shed::copy_to_gate(self.redis, self.sql, self.activity).await?;
        let batch_size = timer.batch_size();
        loop {
            let page = order_rows::load_page(self.sql, self.activity, &gate.restored_after, batch_size as i64).await?;
            if page.is_empty() {
                break;
            }
            let source = Source::Rebuild { after: &gate.restored_after };
            let reply = restore(self.redis, self.activity, gate.epoch, source, &page).await?;
            (gate.restored_after, gate.restored) = (reply.last, reply.restored);
            match reply.outcome {
                RestoreOutcome::Restored if page.len() < batch_size => break,
                RestoreOutcome::Restored | RestoreOutcome::Elsewhere => {}
                RestoreOutcome::Done => {
                    return Ok(RebuildOutcome::Done { orders: gate.restored, epoch: gate.epoch });
                }
                RestoreOutcome::Fenced => return Err(Stop::Overtaken),
            }
            if timer.is_up() {
                let FoundGate { epoch, restored, to_restore, .. } = gate;
                let progress = Progress { step: Step::Restore, orders: restored, total: to_restore, epoch };
                return Ok(RebuildOutcome::Running(progress));
            }
        }
        if let Some(progress) = self.restore_line(&mut gate, timer).await? {
            return Ok(RebuildOutcome::Running(progress));
        }
        let mut script_keys = Keys::of(self.activity).all(["gate", "stats", "orders", "index", "holders", "entries"]);
        script_keys.extend(activity.spec.skus.iter().map(|sku| Keys::of(self.activity).line(&sku.sku)));
        let args = vec![
            gate.epoch.to_string().into(),
            gate.restored_after.as_str().into(),
            gate.line_after.to_string().into(),
        ];
        let mut reply = FINISH.run(self.redis, script_keys, args).await?;
        if !reply.is("done", "fenced")? {
            return Err(Stop::Overtaken);
        }
        Ok(RebuildOutcome::Done { orders: reply.int()?, epoch: gate.epoch })
    }
}

/// Continues the rebuilds that are due, as the sweeper does, within one `budget`. Returns each with its outcome: an activity
/// whose rebuild fails delays no other.
pub async fn continue_interrupted<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    ticket_secret: &str,
    now: Millis,
    budget: Budget,
) -> Result<Vec<(ActivityId, Result<RebuildOutcome, StoreError>)>, StoreError> {
    let started = Instant::now();
    let mut outcomes = Vec::new();
    let due = rebuilds::list_due(sql, now).await?;
    let count = due.len();
    for (index, (activity, epoch)) in due.into_iter().enumerate() {
        if !outcomes.is_empty() && started.elapsed() >= budget.time {
            break;
        }
        // A large sale leaves time to the others.
        let share = budget.time.saturating_sub(started.elapsed()) / u32::try_from(count - index).unwrap_or(1);
        let budget = Budget { time: share, ..budget };
        let now = time_since(now, started);
        let rebuild = Rebuild { redis, sql, activity: &activity, ticket_secret, now, budget };
        sql.forget_timeouts();
        let outcome = rebuild.run(Some(epoch + 1)).await;
        outcomes.push((activity, outcome));
    }
    Ok(outcomes)
}
