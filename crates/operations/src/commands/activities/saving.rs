//! Saves a change of an activity in the ledger and in Redis.

use sale::{
    ledger::{
        activities::{self, Activity},
        epochs,
    },
    warm_up::{WarmUpOutcome, warm_up},
};
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
    reply::Reply,
};

use crate::{
    commands::{
        activities::{CONCURRENT_CHANGE, OperationOutcome, OperatorContext},
        bans,
    },
    upkeep::rebuild::{Progress, Rebuild, RebuildOutcome},
};

/// Maximum number of warm-ups per change, if other requests rebuild the activity at the same time.
const MAX_WARM_UPS: usize = 4;

const CONCURRENT_REBUILD: &str =
    "The change is saved, and the activity is being rebuilt at the same time. Read it again.";

/// Result of saving a change in the ledger and in Redis.
pub(super) enum ChangeOutcome {
    Done(Box<Activity>),
    Rebuilding(Box<Activity>, Progress),
    /// Another operator changed the activity first: nothing was saved.
    Conflict,
    /// The ledger refused the change, or has it and Redis has not; the text says which.
    Refused(String),
}

impl From<ChangeOutcome> for OperationOutcome {
    fn from(outcome: ChangeOutcome) -> Self {
        match outcome {
            ChangeOutcome::Done(activity) => OperationOutcome::Done(activity),
            ChangeOutcome::Rebuilding(activity, progress) => OperationOutcome::Rebuilding(activity, progress),
            ChangeOutcome::Conflict => OperationOutcome::Conflict(CONCURRENT_CHANGE.to_owned()),
            ChangeOutcome::Refused(detail) => OperationOutcome::Conflict(detail),
        }
    }
}

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

    /// Saves a change in the ledger alone.
    pub(super) async fn save(
        &self,
        activity: &Activity,
        previous: Option<&Activity>,
    ) -> Result<ChangeOutcome, StoreError> {
        match activities::save(self.sql, activity, previous, self.now).await {
            Ok(true) => Ok(ChangeOutcome::Done(Box::new(activity.clone()))),
            Ok(false) => Ok(ChangeOutcome::Conflict),
            Err(StoreError::LedgerRefused(_)) => {
                Ok(ChangeOutcome::Refused("A total would be below what is held and sold.".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Saves a change in the ledger, then in Redis.
    pub(super) async fn save_and_warm_up(
        &self,
        activity: &Activity,
        previous: &Activity,
    ) -> Result<ChangeOutcome, StoreError> {
        match self.save(activity, Some(previous)).await? {
            ChangeOutcome::Done(saved) => self.warm_up_or_rebuild(*saved).await,
            other => Ok(other),
        }
    }

    /// Updates Redis to the saved activity; a rebuild creates the gate if there is none.
    async fn warm_up_or_rebuild(&self, mut activity: Activity) -> Result<ChangeOutcome, StoreError> {
        for _ in 0..MAX_WARM_UPS {
            match warm_up(self.redis, &activity, self.ticket_secret).await? {
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
                            return Ok(ChangeOutcome::Rebuilding(Box::new(activity), progress));
                        }
                        RebuildOutcome::Fenced => return Ok(ChangeOutcome::Refused(CONCURRENT_REBUILD.to_owned())),
                        _ => {
                            return Ok(ChangeOutcome::Refused(
                                "The sale has no gate: rebuild it, or ask again.".to_owned(),
                            ));
                        }
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
            return Ok(ChangeOutcome::Done(Box::new(activity)));
        }
        Ok(ChangeOutcome::Refused(CONCURRENT_REBUILD.to_owned()))
    }
}
