//! Saves a change of an activity in the ledger and in Redis.

use domain::activity::LineMode;
use sale::{
    ledger::{
        activities::{self, Activity},
        epochs,
    },
    line,
    warm_up::{Mode, WarmUpOutcome, warm_up},
};
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
    reply::Reply,
};

use crate::{
    commands::{
        activities::{CONCURRENT_CHANGE, OperationOutcome, OperatorContext, conflict},
        bans,
    },
    upkeep::rebuild::{Rebuild, RebuildOutcome},
};

/// Maximum number of warm-ups per change, if other requests rebuild the activity at the same time.
const MAX_WARM_UPS: usize = 4;

/// Calls that offer what a restock added, 100 units in each.
const OFFER_BATCHES: usize = 20;

const CONCURRENT_REBUILD: &str =
    "The change is saved, and the activity is being rebuilt at the same time. Read it again.";

impl<R: Redis, S: Sql> OperatorContext<'_, R, S> {
    /// Prepares a change of `old`: returns it with the next version. That is above the ledger's, and above the gate's
    /// unless the gate has an older epoch or cannot be read.
    ///
    /// The gate is ahead of the ledger after a request lowered totals in Redis and died, or after the ledger was restored
    /// from a backup. It would then reject the change as outdated, and its totals may contain restocks that the ledger
    /// lost. So if the gate's epoch is later, raises the ledger's epoch to it; and if its version is later, returns the
    /// larger of both totals for each limited SKU.
    pub(super) async fn prepare_change(&self, old: &Activity) -> Result<Activity, StoreError> {
        let mut next = Activity { version: old.version + 1, ..old.clone() };
        let mut args = vec![Keys::of(&old.id).named("gate").into(), "epoch".into(), "version".into(), "lowered".into()];
        args.extend(old.spec.skus.iter().map(|sku| format!("total:{}", sku.sku).into()));
        // If Redis is unavailable, the gate is unknown. The warm-up that follows returns the error.
        let Ok(gate) = self.redis.command("HMGET", args).await else { return Ok(next) };
        let mut gate = Reply::new(gate);
        let (epoch, version) = (gate.int()?, gate.int()?.max(gate.int()?));
        if epoch > old.epoch {
            epochs::raise_to(self.sql, &old.id, epoch).await?;
            next.epoch = epoch;
        }
        if epoch >= old.epoch && version > old.version {
            next.version = version + 1;
            for sku in &mut next.spec.skus {
                let total = gate.int()?;
                if sku.total >= 0 {
                    sku.total = sku.total.max(total);
                }
            }
        }
        Ok(next)
    }

    /// Saves a change in the ledger alone. After a conflict nothing is saved.
    pub(super) async fn save(
        &self,
        activity: &Activity,
        previous: Option<&Activity>,
    ) -> Result<OperationOutcome, StoreError> {
        match activities::save(self.sql, activity, previous, self.now).await {
            Ok(true) => Ok(OperationOutcome::Done(Box::new(activity.clone()))),
            Ok(false) => conflict(CONCURRENT_CHANGE),
            Err(StoreError::LedgerRefused(_)) => conflict("A total would be below what is held and sold."),
            Err(error) => Err(error),
        }
    }

    /// Saves `new`, made by [`Self::prepare_change`] of `old`, in the ledger and, if it `has_gate`, in Redis. If nothing but
    /// the version differs, the ledger stays as it is; an earlier call may have ended before it changed Redis.
    pub(super) async fn save_if_changed(
        &self,
        new: &Activity,
        old: Activity,
        has_gate: bool,
    ) -> Result<OperationOutcome, StoreError> {
        let is_changed = *new != Activity { version: old.version + 1, ..old.clone() };
        match (is_changed, has_gate) {
            (true, true) => self.save_and_warm_up(new, &old).await,
            (true, false) => self.save(new, Some(&old)).await,
            (false, false) => Ok(OperationOutcome::Unchanged(Box::new(old))),
            (false, true) => Ok(match self.warm_up_or_rebuild(old).await? {
                OperationOutcome::Done(activity) => OperationOutcome::Unchanged(activity),
                other => other,
            }),
        }
    }

    /// Saves a change in the ledger, then in Redis.
    pub(super) async fn save_and_warm_up(
        &self,
        activity: &Activity,
        previous: &Activity,
    ) -> Result<OperationOutcome, StoreError> {
        match self.save(activity, Some(previous)).await? {
            OperationOutcome::Done(saved) => self.warm_up_or_rebuild(*saved).await,
            other => Ok(other),
        }
    }

    /// Updates Redis to the saved activity; a rebuild creates the gate if there is none.
    async fn warm_up_or_rebuild(&self, mut activity: Activity) -> Result<OperationOutcome, StoreError> {
        for _ in 0..MAX_WARM_UPS {
            match warm_up(self.redis, &activity, self.ticket_secret, Mode::Replace).await? {
                WarmUpOutcome::Done => {}
                // The first gate of an activity is created in the same way as one that Redis lost.
                WarmUpOutcome::NoGate => {
                    let rebuild = Rebuild {
                        redis: self.redis,
                        sql: self.sql,
                        activity: &activity.id,
                        ticket_secret: self.ticket_secret,
                        now: self.now,
                        budget: self.rebuild_budget,
                    };
                    // Any complete gate of the ledger's epoch will do: another request may have just created it.
                    match rebuild.run(Some(activity.epoch.max(1))).await? {
                        RebuildOutcome::Done { epoch, .. } => activity.epoch = epoch,
                        RebuildOutcome::Running(progress) => {
                            return Ok(OperationOutcome::Rebuilding(Box::new(activity), progress));
                        }
                        RebuildOutcome::Fenced => break,
                        _ => return conflict("The sale has no gate: rebuild it, or ask again."),
                    }
                    continue;
                }
                // Another operator has saved a later change and updates Redis with it; or a rebuild has used the state
                // before this change, and the loop repeats with the rebuild's epoch.
                WarmUpOutcome::Stale => match activities::load(self.sql, &activity.id).await? {
                    Some(current) if current.version == activity.version && current.epoch > activity.epoch => {
                        activity.epoch = current.epoch;
                        continue;
                    }
                    _ => {}
                },
            }
            bans::copy_to_redis(self.redis, self.sql, &activity.id, self.now).await?;
            if activity.spec.line.mode != LineMode::None {
                // What is not offered now, the next sweep offers.
                let _ = line::offer(self.redis, &activity.id, OFFER_BATCHES).await;
            }
            return Ok(OperationOutcome::Done(Box::new(activity)));
        }
        conflict(CONCURRENT_REBUILD)
    }
}
