//! Changes of activities by operators.
//!
//! The ledger and Redis are changed in an order that can only undersell in between: a lowered total reaches Redis
//! first, every other change the ledger first.
//!
//! Errors of the methods: after `LedgerUnavailable` the change may or may not be saved. After `RedisUnavailable` or
//! `RedisRefused` the ledger may have the change already; the sweeper then updates Redis.

mod rehearsals;
mod saving;

use domain::{
    activity::{ActivitySpec, ActivityState, Announcement, LineMode, MAX_TOTAL, Sku},
    ids::{ActivityId, SkuId},
    time::Millis,
};
use orders::ledger::order_rows;
use sale::{
    ledger::activities::{self, Activity},
    warm_up::{self, LowerOutcome},
};
use stores::ports::{Redis, Sql, StoreError};

use crate::{
    commands::stats,
    upkeep::{budget::Budget, rebuild::Progress},
};

const CONCURRENT_CHANGE: &str = "Another operator changed the activity at the same time. Read it again.";

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationOutcome {
    /// The activity after the change.
    Done(Box<Activity>),
    /// The activity, which is as the call would have it. Redis is, too.
    Unchanged(Box<Activity>),
    /// The change is saved, and reaches Redis with the rebuild of the activity's data, which has begun: its gate was
    /// gone. The sweeper continues the rebuild.
    Rebuilding(Box<Activity>, Progress),
    /// The activity or the SKU does not exist.
    NotFound,
    /// The change sets another price or currency, or a longer time for refunds, of a published activity, which this operator
    /// may not.
    MayNotChangeMoney,
    /// Refused; the text says why, for example the activity's state, a total below what is held and sold, or a
    /// concurrent change.
    Conflict(String),
}

fn conflict(detail: impl Into<String>) -> Result<OperationOutcome, StoreError> {
    Ok(OperationOutcome::Conflict(detail.into()))
}

/// Result of [`delete_draft`] and [`OperatorContext::delete_rehearsal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// Deleted. Sweeps erase the orders of a rehearsal.
    Deleted,
    /// The activity does not exist.
    NotFound,
    /// Refused; the text says why.
    Conflict(String),
}

/// Deletes a draft.
pub async fn delete_draft<S: Sql>(sql: &S, id: &ActivityId) -> Result<DeleteOutcome, StoreError> {
    let Some(old) = activities::load(sql, id).await? else { return Ok(DeleteOutcome::NotFound) };
    if old.state != ActivityState::Draft {
        let detail = format!("The sale is {}: only a draft or a rehearsal can be deleted.", old.state.as_str());
        return Ok(DeleteOutcome::Conflict(detail));
    }
    match activities::delete_draft(sql, id, old.version).await {
        Ok(true) => Ok(DeleteOutcome::Deleted),
        Ok(false) => Ok(DeleteOutcome::Conflict(CONCURRENT_CHANGE.to_owned())),
        // A ledger that was restored to a time at which the sale was a draft got orders that were still queued.
        Err(StoreError::LedgerRefused(_)) => Ok(DeleteOutcome::Conflict(
            "The draft has orders: the ledger is from before the sale was published. Publish it again.".to_owned(),
        )),
        Err(error) => Err(error),
    }
}

/// Stores and settings for operations on activities.
pub struct OperatorContext<'a, R, S> {
    /// Redis.
    pub redis: &'a R,
    /// The ledger.
    pub sql: &'a S,
    /// Secret from which start keys are derived.
    pub ticket_secret: &'a str,
    /// Current time.
    pub now: Millis,
    /// Random, unguessable text for a new start key.
    pub nonce: String,
    /// How much one call rebuilds of an activity whose gate is gone.
    pub rebuild_budget: Budget,
    /// Whether the operator may change prices and currencies, and lengthen the time for refunds, once an activity is
    /// published.
    pub may_change_money: bool,
}

impl<R: Redis, S: Sql> OperatorContext<'_, R, S> {
    /// Creates an activity as a draft, replaces a draft, or changes a published activity where that is safe. A start that
    /// moves into the future gets a new start key (A4).
    ///
    /// With `expected_version` the change is made only if the activity still has that version (0: does not exist yet).
    /// Without it a published activity keeps its totals: an outdated specification would undo a restock.
    pub async fn put(
        &self,
        id: &ActivityId,
        spec: ActivitySpec,
        expected_version: Option<i64>,
    ) -> Result<OperationOutcome, StoreError> {
        let old = activities::load(self.sql, id).await?;
        let version = old.as_ref().map_or(0, |old| old.version);
        if let Some(expected) = expected_version.filter(|expected| *expected != version) {
            return conflict(match expected {
                0 => "There is a sale of this name: choose another, or edit that.".to_owned(),
                _ => format!("The sale was changed since you read it, and is version {version} now: read it again."),
            });
        }
        let Some(old) = old else {
            let new = Activity {
                id: id.clone(),
                spec,
                state: ActivityState::Draft,
                announcement: Announcement::default(),
                nonce: self.nonce.clone(),
                version: 1,
                epoch: 0,
                live_units: Vec::new(),
            };
            return self.save(&new, None).await;
        };
        self.change_spec(old, spec, expected_version.is_some()).await
    }

    /// Adds `by` units to a SKU; a negative number removes unsold units. With `expected_total` the change is made only
    /// if the total still has that value, so that a repeated call adds the units once.
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
            return conflict("The SKU is unlimited: there is nothing to restock.");
        }
        if let Some(expected) = expected_total.filter(|expected| *expected != target.total) {
            let detail =
                format!("The total of SKU {sku} is {}, not {expected}: look whether it was restocked.", target.total);
            return conflict(detail);
        }
        match target.total.checked_add(by).filter(|total| (0..=MAX_TOTAL).contains(total)) {
            Some(total) => target.total = total,
            None => return conflict("The total would be below 0 or above 10^9."),
        }
        let old_version = old.version;
        match self.change_spec(old, spec.clone(), true).await {
            // The ledger has the new total, and the sweeper updates Redis. An error would make the operator repeat the
            // call, which would add the units again.
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

    async fn change_spec(
        &self,
        old: Activity,
        spec: ActivitySpec,
        may_change_totals: bool,
    ) -> Result<OperationOutcome, StoreError> {
        let is_draft = old.state == ActivityState::Draft;
        let has_other_price = |sku: &Sku| {
            let same = |other: &Sku| (other.price, &other.currency) == (sku.price, &sku.currency);
            spec.skus.iter().any(|other| other.sku == sku.sku && !same(other))
        };
        if spec.rehearsal != old.spec.rehearsal {
            return conflict("A sale is a rehearsal from the first, or never: rehearsal cannot be changed.");
        }
        // Without an end is the longest.
        let refund_seconds = |spec: &ActivitySpec| spec.refund_window_seconds.unwrap_or(i64::MAX);
        let changes_money =
            old.spec.skus.iter().any(has_other_price) || refund_seconds(&spec) > refund_seconds(&old.spec);
        if !is_draft && !self.may_change_money && changes_money {
            return Ok(OperationOutcome::MayNotChangeMoney);
        }
        let mut new = Activity { spec, ..self.prepare_change(&old).await? };
        // The key was shown, or may have been, for the old start: a client that knows it would be first at the new one.
        if new.spec.starts_at > old.spec.starts_at && new.spec.starts_at > self.now {
            new.nonce.clone_from(&self.nonce);
        }
        match old.state {
            ActivityState::Draft => return self.save_if_changed(&new, old, false).await,
            ActivityState::Closed => {
                let refund_window_seconds = new.spec.refund_window_seconds;
                if new.spec != (ActivitySpec { refund_window_seconds, ..old.spec.clone() }) {
                    return conflict("The sale is closed: only its time for refunds can be changed.");
                }
                return self.save_if_changed(&new, old, false).await;
            }
            ActivityState::Published | ActivityState::Paused => {}
        }
        if new.spec.per_user < old.spec.per_user {
            return conflict("Buyers may hold more already: per_user cannot be lowered once the sale is published.");
        }
        if new.spec.line.mode == LineMode::None && old.spec.line.mode != LineMode::None {
            let waits = stats::stats(self.redis, &new.id)
                .await?
                .is_none_or(|stats| stats.skus.iter().any(|sku| sku.waiting > 0));
            if waits {
                return conflict("Somebody may wait in the line: it cannot be switched off.");
            }
        }
        let mut lowered = Vec::new();
        for sku in &old.spec.skus {
            match new.spec.skus.iter().find(|other| other.sku == sku.sku).map(|other| other.total) {
                None => return conflict(format!("SKU {} is on sale: it cannot be removed.", sku.sku)),
                Some(total) if (total < 0) != (sku.total < 0) => {
                    return conflict(format!("SKU {}: a total cannot become or cease to be unlimited.", sku.sku));
                }
                Some(total) if total != sku.total && !may_change_totals => {
                    return conflict(format!(
                        "SKU {} has a total of {}, not {total}: restock it, or send If-Match with the sale's version as you \
                         read it (now \"{}\").",
                        sku.sku, sku.total, old.version
                    ));
                }
                Some(total) if total < sku.total => lowered.push((sku.sku.clone(), total)),
                Some(_) => {}
            }
        }
        if lowered.is_empty() {
            return self.save_if_changed(&new, old, true).await;
        }
        // Only Redis knows which units are unsold, so it gets the lowered totals first, and nothing else.
        match warm_up::lower_totals(self.redis, &new.id, new.version, new.epoch, &lowered).await? {
            LowerOutcome::Done | LowerOutcome::NoGate => {}
            LowerOutcome::Stale => return conflict(CONCURRENT_CHANGE),
            LowerOutcome::BelowHeldAndSold(sku) => {
                return conflict(format!("The total of SKU {sku} would be below what is held and sold."));
            }
        }
        let outcome = self.save_and_warm_up(&new, &old).await?;
        if let OperationOutcome::Conflict(_) = outcome {
            self.undo_lowered_totals(&new).await?;
        }
        Ok(outcome)
    }

    /// Undoes lowered totals in Redis whose change was not saved: both stores get what the ledger has now.
    async fn undo_lowered_totals(&self, attempted: &Activity) -> Result<(), StoreError> {
        let Some(current) = activities::load(self.sql, &attempted.id).await? else { return Ok(()) };
        let restored = Activity { version: current.version.max(attempted.version) + 1, ..current.clone() };
        self.save_and_warm_up(&restored, &current).await.map(|_| ())
    }

    /// Publishes, pauses or closes an activity, or resumes a paused one. A draft whose end is past is not put on sale.
    pub async fn set_state(&self, id: &ActivityId, state: ActivityState) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let allowed = matches!(
            (old.state, state),
            (ActivityState::Draft | ActivityState::Published | ActivityState::Paused, ActivityState::Published)
                | (ActivityState::Published | ActivityState::Paused, ActivityState::Paused | ActivityState::Closed)
                | (ActivityState::Closed, ActivityState::Closed)
        );
        if !allowed {
            return conflict(format!("The sale is {}: it cannot become {}.", old.state.as_str(), state.as_str()));
        }
        // One with orders is of a ledger that was restored: it is published as ended.
        if (old.state, state) == (ActivityState::Draft, ActivityState::Published)
            && old.spec.ends_at <= self.now
            && order_rows::count(self.sql, id).await? == 0
        {
            return conflict(format!("The sale's end, {}, is past: set a later one first.", old.spec.ends_at));
        }
        let new = Activity { state, ..self.prepare_change(&old).await? };
        self.save_if_changed(&new, old, true).await
    }

    /// Resumes a paused activity. Refuses a draft, which may be incomplete.
    pub async fn resume(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        match activities::load(self.sql, id).await? {
            Some(activity) if activity.state == ActivityState::Draft => conflict("The sale is draft: publish it."),
            _ => self.set_state(id, ActivityState::Published).await,
        }
    }

    /// Replaces the start key (A4): reservations with the old one are refused from now on.
    pub async fn rotate_start_key(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let new = Activity { nonce: self.nonce.clone(), ..self.prepare_change(&old).await? };
        match new.state {
            ActivityState::Published | ActivityState::Paused => self.save_and_warm_up(&new, &old).await,
            ActivityState::Draft | ActivityState::Closed => self.save(&new, Some(&old)).await,
        }
    }

    /// Replaces the word from the shop to everybody who looks at the activity.
    pub async fn announce(&self, id: &ActivityId, text: Announcement) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let new = Activity { announcement: text, ..self.prepare_change(&old).await? };
        let has_gate = new.state != ActivityState::Draft;
        self.save_if_changed(&new, old, has_gate).await
    }

    /// Gives the ledger and Redis the same version of an activity whose gate is ahead of the ledger (see
    /// [`Self::prepare_change`]).
    pub(crate) async fn realign(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::NotFound) };
        let new = self.prepare_change(&old).await?;
        self.save_and_warm_up(&new, &old).await
    }
}
