//! What operators do to a sale: the ledger and Redis are changed in the order that can only undersell in between.

use domain::{
    activity::{ActivitySpec, ActivityState, MAX_TOTAL},
    ids::{ActivityId, SkuId},
    time::Millis,
};

use crate::{
    cache::warm_up::{self, WarmUpOutcome, warm_up},
    keys::Keys,
    ledger::{
        activities::{self, Activity, SaveOutcome},
        epochs,
    },
    operator::{bans, shed},
    ports::{Redis, Sql, StoreError},
    recovery::rebuild::{RebuildOutcome, rebuild},
    reply::Reply,
};

/// How often a sale that others rebuild at the same time is preheated.
const MAX_WARM_UPS: usize = 4;

const CONCURRENT_CHANGE: &str = "Somebody changed the sale at the same time: look again.";
const CONCURRENT_TOTALS_CHANGE: &str =
    "Somebody changed totals at the same time: they stay, and the rest is changed. Look again.";
const CONCURRENT_REBUILD: &str = "Somebody rebuilds the sale at the same time: look again.";

/// What came of an operator's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationOutcome {
    /// Done.
    Done(Box<Activity>),
    /// There is no such sale.
    NotFound,
    /// Not in this state, or not below what is held and sold; the text says which.
    Conflict(String),
}

/// What came of writing a change down, and of telling Redis.
enum ChangeOutcome {
    Done(Box<Activity>),
    /// Somebody else was first: nothing of it is in the ledger.
    Conflict,
    /// Some of it is, and the text says what hindered the rest.
    Partial(String),
}

impl From<ChangeOutcome> for OperationOutcome {
    fn from(outcome: ChangeOutcome) -> Self {
        match outcome {
            ChangeOutcome::Done(activity) => OperationOutcome::Done(activity),
            ChangeOutcome::Conflict => OperationOutcome::Conflict(CONCURRENT_CHANGE.to_owned()),
            ChangeOutcome::Partial(detail) => OperationOutcome::Conflict(detail),
        }
    }
}

/// What operations need beside the stores.
pub struct OperatorContext<'a, R, S> {
    /// Redis.
    pub redis: &'a R,
    /// The ledger.
    pub sql: &'a S,
    /// What start keys are made with.
    pub ticket_secret: &'a str,
    /// Now.
    pub now: Millis,
    /// A random text, for what must not be guessed.
    pub nonce: String,
}

impl<R: Redis, S: Sql> OperatorContext<'_, R, S> {
    /// Creates a sale as a draft, replaces a draft, or changes a published sale where that is safe. With the version that
    /// was `read`, only where nobody has changed it since: a description holds totals, and would undo a restock.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put(
        &self,
        id: &ActivityId,
        spec: ActivitySpec,
        expected_version: Option<i64>,
    ) -> Result<OperationOutcome, StoreError> {
        let old = activities::load(self.sql, id).await?;
        let version = old.as_ref().map_or(0, |old| old.version);
        if let Some(expected) = expected_version.filter(|expected| *expected != version) {
            return Ok(OperationOutcome::Conflict(match expected {
                0 => "There is a sale of this name: choose another, or edit that.".to_owned(),
                _ => format!("The sale was changed since you read it, and is version {version} now: read it again."),
            }));
        }
        let Some(old) = old else {
            let new = Activity {
                id: id.clone(),
                spec,
                state: ActivityState::Draft,
                nonce: self.nonce.clone(),
                version: 1,
                epoch: 0,
                live_units: Vec::new(),
            };
            return self.save(&new, None).await.map(Into::into);
        };
        self.change_spec(old, spec).await
    }

    /// Adds `by` units to a SKU (or, below 0, takes unsold ones away). With `from`, only where its total is still that:
    /// who asks twice adds once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn restock(
        &self,
        id: &ActivityId,
        sku: &SkuId,
        by: i64,
        expected_total: Option<i64>,
    ) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let mut spec = old.spec.clone();
        let Some(target) = spec.skus.iter_mut().find(|other| other.sku == *sku) else {
            return Ok(OperationOutcome::NotFound);
        };
        if target.total < 0 {
            return Ok(OperationOutcome::Conflict("The SKU is unlimited: there is nothing to restock.".to_owned()));
        }
        if let Some(expected) = expected_total.filter(|expected| *expected != target.total) {
            let detail =
                format!("The total of SKU {sku} is {}, not {expected}: look whether it was restocked.", target.total);
            return Ok(OperationOutcome::Conflict(detail));
        }
        match target.total.checked_add(by).filter(|total| (0..=MAX_TOTAL).contains(total)) {
            Some(total) => target.total = total,
            None => return Ok(OperationOutcome::Conflict("The total would be below 0 or above 10^9.".to_owned())),
        }
        let old_version = old.version;
        match self.change_spec(old, spec.clone()).await {
            // The ledger has the units, and the sweeper brings Redis along: asked again, it would add them again.
            Err(error @ (StoreError::RedisUnavailable(_) | StoreError::RedisRefused(_))) if by > 0 => {
                match activities::load(self.sql, id).await? {
                    Some(current) if current.version > old_version && current.spec == spec => {
                        Ok(OperationOutcome::Done(Box::new(current)))
                    }
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    async fn change_spec(&self, old: Activity, spec: ActivitySpec) -> Result<OperationOutcome, StoreError> {
        let new = Activity { spec, ..self.next_version(&old).await? };
        match old.state {
            ActivityState::Draft => return self.save(&new, Some(&old)).await.map(Into::into),
            ActivityState::Closed => {
                return Ok(OperationOutcome::Conflict("The sale is closed: it cannot be changed.".to_owned()));
            }
            ActivityState::Published | ActivityState::Paused => {}
        }
        if new.spec.per_user < old.spec.per_user {
            let detail = "Buyers may hold more already: per_user cannot be lowered once the sale is published.";
            return Ok(OperationOutcome::Conflict(detail.to_owned()));
        }
        let mut lowered_only =
            Activity { spec: old.spec.clone(), version: new.version, epoch: new.epoch, ..old.clone() };
        let mut lowered_skus = Vec::new();
        for sku in &mut lowered_only.spec.skus {
            match new.spec.skus.iter().find(|other| other.sku == sku.sku).map(|other| other.total) {
                None => {
                    return Ok(OperationOutcome::Conflict(format!(
                        "SKU {} is on sale: it cannot be removed.",
                        sku.sku
                    )));
                }
                Some(total) if (total < 0) != (sku.total < 0) => {
                    let detail = format!("SKU {}: a total cannot become or cease to be unlimited.", sku.sku);
                    return Ok(OperationOutcome::Conflict(detail));
                }
                Some(total) if total < sku.total => {
                    sku.total = total;
                    lowered_skus.push(sku.sku.clone());
                }
                Some(_) => {}
            }
        }
        if lowered_skus.is_empty() {
            return self.save_and_warm_up(&new, &old).await.map(Into::into);
        }
        // Redis decides what can still be taken off sale: it goes first, with nothing but that.
        match warm_up::lower_totals(self.redis, &lowered_only, self.ticket_secret, &lowered_skus).await? {
            WarmUpOutcome::Done | WarmUpOutcome::NoGate => {}
            WarmUpOutcome::Stale => return Ok(OperationOutcome::Conflict(CONCURRENT_CHANGE.to_owned())),
            WarmUpOutcome::BelowHeldAndSold(sku) => {
                let detail = format!("The total of SKU {sku} would be below what is held and sold.");
                return Ok(OperationOutcome::Conflict(detail));
            }
        }
        let outcome = self.save_and_warm_up(&new, &old).await?;
        match outcome {
            ChangeOutcome::Done(_) => {}
            ChangeOutcome::Conflict => self.undo_lowered_totals(None, &new).await?,
            ChangeOutcome::Partial(_) => self.undo_lowered_totals(Some(&old), &new).await?,
        }
        Ok(outcome.into())
    }

    /// Redis went ahead in vain: both stores get the sale as it was `before` it was `tried`, where the ledger has some of
    /// that, or as somebody else left it, whose version may have the same number.
    async fn undo_lowered_totals(&self, previous: Option<&Activity>, attempted: &Activity) -> Result<(), StoreError> {
        let Some(current) = activities::load(self.sql, &attempted.id).await? else { return Ok(()) };
        let base = previous.filter(|_| current.version == attempted.version).unwrap_or(&current).clone();
        let mut restored = Activity { version: current.version.max(attempted.version) + 1, ..base };
        let total_of =
            |of: &Activity, sku: &SkuId| of.spec.skus.iter().find(|other| other.sku == *sku).map(|sku| sku.total);
        for sku in &mut restored.spec.skus {
            // What the ledger has, unless that is what was tried.
            match total_of(&current, &sku.sku) {
                Some(current_total) if total_of(attempted, &sku.sku) != Some(current_total) => {
                    sku.total = current_total
                }
                _ => {}
            }
        }
        self.save_and_warm_up(&restored, &current).await.map(|_| ())
    }

    /// Publishes, pauses or closes a sale, or resumes one that is paused. Publishing again preheats again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn set_state(&self, id: &ActivityId, state: ActivityState) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let allowed = matches!(
            (old.state, state),
            (ActivityState::Draft | ActivityState::Published | ActivityState::Paused, ActivityState::Published)
                | (ActivityState::Published | ActivityState::Paused, ActivityState::Paused | ActivityState::Closed)
                | (ActivityState::Closed, ActivityState::Closed)
        );
        if !allowed {
            let detail = format!("The sale is {}: it cannot become {}.", old.state.as_str(), state.as_str());
            return Ok(OperationOutcome::Conflict(detail));
        }
        let new = Activity { state, ..self.next_version(&old).await? };
        self.save_except_totals(&new, &old).await
    }

    /// Resumes a sale that was paused. What was never published is not resumed: a draft may be half written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn resume(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        match activities::load(self.sql, id).await? {
            Some(activity) if activity.state == ActivityState::Draft => {
                Ok(OperationOutcome::Conflict("The sale is draft: publish it.".to_owned()))
            }
            _ => self.set_state(id, ActivityState::Published).await,
        }
    }

    /// Makes a new start key (A4): reservations with the old one are refused from this moment on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rotate_start_key(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let new = Activity { nonce: self.nonce.clone(), ..self.next_version(&old).await? };
        match new.state {
            ActivityState::Published | ActivityState::Paused => self.save_except_totals(&new, &old).await,
            ActivityState::Draft | ActivityState::Closed => self.save(&new, Some(&old)).await.map(Into::into),
        }
    }

    /// Sheds load, or stops shedding: every sale answers `overloaded` to reservations while it is on (B9), those that are
    /// published meanwhile too. Answers how many were told.
    ///
    /// # Errors
    /// [`StoreError`]; doing it again finishes it.
    pub async fn set_shedding(&self, on: bool) -> Result<usize, StoreError> {
        shed::set(self.redis, self.sql, on).await
    }

    /// The sale as it is to be changed: its version is later than the ledger's and than the gate's, and its epoch no
    /// older. The gate is ahead where the ledger was restored from a backup: it would take the change for an old one, and
    /// it knows of restocks that the ledger lost.
    async fn next_version(&self, old: &Activity) -> Result<Activity, StoreError> {
        let mut next = Activity { version: old.version + 1, ..old.clone() };
        let mut args = vec![Keys::of(&old.id).named("gate").into(), "epoch".into(), "version".into()];
        args.extend(old.spec.skus.iter().map(|sku| format!("total:{}", sku.sku).into()));
        // While Redis is away nothing is known of it, and whoever brings it into line says so.
        let Ok(gate) = self.redis.command("HMGET", args).await else { return Ok(next) };
        let mut gate = Reply::new(gate);
        let (epoch, version) = (gate.int()?, gate.int()?);
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

    async fn save(&self, activity: &Activity, previous: Option<&Activity>) -> Result<ChangeOutcome, StoreError> {
        match activities::save(self.sql, activity, previous, self.now).await {
            Ok(SaveOutcome::Saved) => Ok(ChangeOutcome::Done(Box::new(activity.clone()))),
            Ok(SaveOutcome::SavedExceptTotals) => Ok(ChangeOutcome::Partial(CONCURRENT_TOTALS_CHANGE.to_owned())),
            Ok(SaveOutcome::Conflict) => Ok(ChangeOutcome::Conflict),
            Err(StoreError::LedgerRefused(_)) => {
                Ok(ChangeOutcome::Partial("A total would be below what is held and sold.".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    async fn save_and_warm_up(&self, activity: &Activity, previous: &Activity) -> Result<ChangeOutcome, StoreError> {
        match self.save(activity, Some(previous)).await? {
            ChangeOutcome::Done(saved) => self.warm_up_or_rebuild(*saved).await,
            other => Ok(other),
        }
    }

    /// The same for a change of anything but totals: those that somebody else changed at the same time may stay.
    async fn save_except_totals(
        &self,
        activity: &Activity,
        previous: &Activity,
    ) -> Result<OperationOutcome, StoreError> {
        match self.save(activity, Some(previous)).await? {
            ChangeOutcome::Partial(_) => match activities::load(self.sql, &activity.id).await? {
                Some(current) if current.version == activity.version => {
                    self.warm_up_or_rebuild(current).await.map(Into::into)
                }
                _ => Ok(OperationOutcome::Conflict(CONCURRENT_CHANGE.to_owned())),
            },
            ChangeOutcome::Done(saved) => self.warm_up_or_rebuild(*saved).await.map(Into::into),
            ChangeOutcome::Conflict => Ok(ChangeOutcome::Conflict.into()),
        }
    }

    /// Brings Redis into line with what was saved.
    async fn warm_up_or_rebuild(&self, mut activity: Activity) -> Result<ChangeOutcome, StoreError> {
        for _ in 0..MAX_WARM_UPS {
            match warm_up(self.redis, &activity, self.ticket_secret).await? {
                WarmUpOutcome::Done => {}
                // The first gate of a sale, and one after Redis lost it, are made alike.
                WarmUpOutcome::NoGate => {
                    match rebuild(self.redis, self.sql, &activity.id, self.ticket_secret, self.now).await? {
                        RebuildOutcome::Done { epoch, .. } => activity.epoch = epoch,
                        // Somebody else has just made one.
                        RebuildOutcome::Open => {}
                        RebuildOutcome::Fenced => return Ok(ChangeOutcome::Partial(CONCURRENT_REBUILD.to_owned())),
                        _ => {
                            return Ok(ChangeOutcome::Partial(
                                "The sale has no gate: rebuild it, or ask again.".to_owned(),
                            ));
                        }
                    }
                    continue;
                }
                // Somebody changed the sale after us, and brings Redis along; or rebuilt it from what was before us.
                WarmUpOutcome::Stale => match activities::load(self.sql, &activity.id).await? {
                    Some(current) if current.version == activity.version && current.epoch > activity.epoch => {
                        activity.epoch = current.epoch;
                        continue;
                    }
                    _ => {}
                },
                WarmUpOutcome::BelowHeldAndSold(sku) => {
                    return Err(StoreError::Malformed(format!("{sku} was not to be judged")));
                }
            }
            bans::copy_to_redis(self.redis, self.sql, &activity.id, self.now).await?;
            return Ok(ChangeOutcome::Done(Box::new(activity)));
        }
        Ok(ChangeOutcome::Partial(CONCURRENT_REBUILD.to_owned()))
    }
}
