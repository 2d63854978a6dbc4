//! What operators do to a sale: the ledger and Redis are changed in the order that can only undersell in between.

use domain::{
    activity::{LARGEST_TOTAL, Spec, State},
    ids::{ActivityId, SkuId},
    time::Millis,
};

use crate::{
    cache::warm_up::{self, WarmUpOutcome, warm_up},
    keys::Keys,
    ledger::{
        activities::{self, Activity, Saved},
        epochs,
    },
    operator::{bans, shed},
    ports::{Redis, Sql, StoreError},
    recovery::rebuild::{Rebuilt, rebuild},
    reply::Reply,
};

/// How often a sale that others rebuild at the same time is preheated.
const HEATS: usize = 4;

const AT_ONCE: &str = "Somebody changed the sale at the same time: look again.";
const TOTALS_AT_ONCE: &str =
    "Somebody changed totals at the same time: they stay, and the rest is changed. Look again.";
const REBUILT_AT_ONCE: &str = "Somebody rebuilds the sale at the same time: look again.";

/// What came of an operator's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationOutcome {
    /// Done.
    Done(Box<Activity>),
    /// There is no such sale.
    Unknown,
    /// Not in this state, or not below what is held and sold; the text says which.
    Conflict(String),
}

/// What came of writing a change down, and of telling Redis.
enum Tried {
    Done(Box<Activity>),
    /// Somebody else was first: nothing of it is in the ledger.
    Gone,
    /// Some of it is, and the text says what hindered the rest.
    Half(String),
}

impl From<Tried> for OperationOutcome {
    fn from(tried: Tried) -> Self {
        match tried {
            Tried::Done(activity) => OperationOutcome::Done(activity),
            Tried::Gone => OperationOutcome::Conflict(AT_ONCE.to_owned()),
            Tried::Half(detail) => OperationOutcome::Conflict(detail),
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
    pub async fn put(&self, id: &ActivityId, spec: Spec, read: Option<i64>) -> Result<OperationOutcome, StoreError> {
        let old = activities::load(self.sql, id).await?;
        let version = old.as_ref().map_or(0, |old| old.version);
        if let Some(read) = read.filter(|read| *read != version) {
            return Ok(OperationOutcome::Conflict(match read {
                0 => "There is a sale of this name: choose another, or edit that.".to_owned(),
                _ => format!("The sale was changed since you read it, and is version {version} now: read it again."),
            }));
        }
        let Some(old) = old else {
            let new = Activity {
                id: id.clone(),
                spec,
                state: State::Draft,
                nonce: self.nonce.clone(),
                version: 1,
                epoch: 0,
                live: Vec::new(),
            };
            return self.save(&new, None).await.map(Into::into);
        };
        self.change(old, spec).await
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
        from: Option<i64>,
    ) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::Unknown) };
        let mut spec = old.spec.clone();
        let Some(known) = spec.skus.iter_mut().find(|known| known.sku == *sku) else {
            return Ok(OperationOutcome::Unknown);
        };
        if known.total < 0 {
            return Ok(OperationOutcome::Conflict("The SKU is unlimited: there is nothing to restock.".to_owned()));
        }
        if let Some(from) = from.filter(|from| *from != known.total) {
            let detail =
                format!("The total of SKU {sku} is {}, not {from}: look whether it was restocked.", known.total);
            return Ok(OperationOutcome::Conflict(detail));
        }
        match known.total.checked_add(by).filter(|total| (0..=LARGEST_TOTAL).contains(total)) {
            Some(total) => known.total = total,
            None => return Ok(OperationOutcome::Conflict("The total would be below 0 or above 10^9.".to_owned())),
        }
        let version = old.version;
        match self.change(old, spec.clone()).await {
            // The ledger has the units, and the sweeper brings Redis along: asked again, it would add them again.
            Err(error @ (StoreError::RedisUnavailable(_) | StoreError::RedisRefused(_))) if by > 0 => {
                match activities::load(self.sql, id).await? {
                    Some(now) if now.version > version && now.spec == spec => Ok(OperationOutcome::Done(Box::new(now))),
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    async fn change(&self, old: Activity, spec: Spec) -> Result<OperationOutcome, StoreError> {
        let new = Activity { spec, ..self.next(&old).await? };
        match old.state {
            State::Draft => return self.save(&new, Some(&old)).await.map(Into::into),
            State::Closed => {
                return Ok(OperationOutcome::Conflict("The sale is closed: it cannot be changed.".to_owned()));
            }
            State::Published | State::Paused => {}
        }
        if new.spec.per_user < old.spec.per_user {
            let detail = "Buyers may hold more already: per_user cannot be lowered once the sale is published.";
            return Ok(OperationOutcome::Conflict(detail.to_owned()));
        }
        let mut lowered = Activity { spec: old.spec.clone(), version: new.version, epoch: new.epoch, ..old.clone() };
        let mut lower = Vec::new();
        for sku in &mut lowered.spec.skus {
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
                    lower.push(sku.sku.clone());
                }
                Some(_) => {}
            }
        }
        if lower.is_empty() {
            return self.save_and_heat(&new, &old).await.map(Into::into);
        }
        // Redis decides what can still be taken off sale: it goes first, with nothing but that.
        match warm_up::lower(self.redis, &lowered, self.ticket_secret, &lower).await? {
            WarmUpOutcome::Done | WarmUpOutcome::Missing => {}
            WarmUpOutcome::Stale => return Ok(OperationOutcome::Conflict(AT_ONCE.to_owned())),
            WarmUpOutcome::Below(sku) => {
                let detail = format!("The total of SKU {sku} would be below what is held and sold.");
                return Ok(OperationOutcome::Conflict(detail));
            }
        }
        let tried = self.save_and_heat(&new, &old).await?;
        match tried {
            Tried::Done(_) => {}
            Tried::Gone => self.take_back(None, &new).await?,
            Tried::Half(_) => self.take_back(Some(&old), &new).await?,
        }
        Ok(tried.into())
    }

    /// Redis went ahead in vain: both stores get the sale as it was `before` it was `tried`, where the ledger has some of
    /// that, or as somebody else left it, whose version may have the same number.
    async fn take_back(&self, before: Option<&Activity>, tried: &Activity) -> Result<(), StoreError> {
        let Some(now) = activities::load(self.sql, &tried.id).await? else { return Ok(()) };
        let kept = before.filter(|_| now.version == tried.version).unwrap_or(&now).clone();
        let mut kept = Activity { version: now.version.max(tried.version) + 1, ..kept };
        let total =
            |of: &Activity, sku: &SkuId| of.spec.skus.iter().find(|known| known.sku == *sku).map(|sku| sku.total);
        for sku in &mut kept.spec.skus {
            // What the ledger has, unless that is what was tried.
            match total(&now, &sku.sku) {
                Some(theirs) if total(tried, &sku.sku) != Some(theirs) => sku.total = theirs,
                _ => {}
            }
        }
        self.save_and_heat(&kept, &now).await.map(|_| ())
    }

    /// Publishes, pauses or closes a sale, or resumes one that is paused. Publishing again preheats again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn set_state(&self, id: &ActivityId, state: State) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::Unknown) };
        let legal = matches!(
            (old.state, state),
            (State::Draft | State::Published | State::Paused, State::Published)
                | (State::Published | State::Paused, State::Paused | State::Closed)
                | (State::Closed, State::Closed)
        );
        if !legal {
            let detail = format!("The sale is {}: it cannot become {}.", old.state.as_str(), state.as_str());
            return Ok(OperationOutcome::Conflict(detail));
        }
        let new = Activity { state, ..self.next(&old).await? };
        self.save_all_but_totals(&new, &old).await
    }

    /// Resumes a sale that was paused. What was never published is not resumed: a draft may be half written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn resume(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        match activities::load(self.sql, id).await? {
            Some(sale) if sale.state == State::Draft => {
                Ok(OperationOutcome::Conflict("The sale is draft: publish it.".to_owned()))
            }
            _ => self.set_state(id, State::Published).await,
        }
    }

    /// Makes a new start key (A4): reservations with the old one are refused from this moment on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rotate_start_key(&self, id: &ActivityId) -> Result<OperationOutcome, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(OperationOutcome::Unknown) };
        let new = Activity { nonce: self.nonce.clone(), ..self.next(&old).await? };
        match new.state {
            State::Published | State::Paused => self.save_all_but_totals(&new, &old).await,
            State::Draft | State::Closed => self.save(&new, Some(&old)).await.map(Into::into),
        }
    }

    /// Sheds load, or stops shedding: every sale answers `overloaded` to reservations while it is on (B9), those that are
    /// published meanwhile too. Answers how many were told.
    ///
    /// # Errors
    /// [`StoreError`]; doing it again finishes it.
    pub async fn shed(&self, on: bool) -> Result<usize, StoreError> {
        shed::turn(self.redis, self.sql, on).await
    }

    /// The sale as it is to be changed: its version is later than the ledger's and than the gate's, and its epoch no
    /// older. The gate is ahead where the ledger was restored from a backup: it would take the change for an old one, and
    /// it knows of restocks that the ledger lost.
    async fn next(&self, old: &Activity) -> Result<Activity, StoreError> {
        let mut next = Activity { version: old.version + 1, ..old.clone() };
        let mut args = vec![Keys::of(&old.id).named("gate").into(), "epoch".into(), "version".into()];
        args.extend(old.spec.skus.iter().map(|sku| format!("total:{}", sku.sku).into()));
        // While Redis is away nothing is known of it, and whoever brings it into line says so.
        let Ok(gate) = self.redis.command("HMGET", args).await else { return Ok(next) };
        let mut gate = Reply::new(gate);
        let (epoch, version) = (gate.int()?, gate.int()?);
        if epoch > old.epoch {
            epochs::catch_up(self.sql, &old.id, epoch).await?;
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

    async fn save(&self, activity: &Activity, read: Option<&Activity>) -> Result<Tried, StoreError> {
        match activities::save(self.sql, activity, read, self.now).await {
            Ok(Saved::Whole) => Ok(Tried::Done(Box::new(activity.clone()))),
            Ok(Saved::Half) => Ok(Tried::Half(TOTALS_AT_ONCE.to_owned())),
            Ok(Saved::Gone) => Ok(Tried::Gone),
            Err(StoreError::LedgerRefused(_)) => {
                Ok(Tried::Half("A total would be below what is held and sold.".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    async fn save_and_heat(&self, activity: &Activity, read: &Activity) -> Result<Tried, StoreError> {
        match self.save(activity, Some(read)).await? {
            Tried::Done(saved) => self.heat(*saved).await,
            other => Ok(other),
        }
    }

    /// The same for a change of anything but totals: those that somebody else changed at the same time may stay.
    async fn save_all_but_totals(&self, activity: &Activity, read: &Activity) -> Result<OperationOutcome, StoreError> {
        match self.save(activity, Some(read)).await? {
            Tried::Half(_) => match activities::load(self.sql, &activity.id).await? {
                Some(now) if now.version == activity.version => self.heat(now).await.map(Into::into),
                _ => Ok(OperationOutcome::Conflict(AT_ONCE.to_owned())),
            },
            Tried::Done(saved) => self.heat(*saved).await.map(Into::into),
            Tried::Gone => Ok(Tried::Gone.into()),
        }
    }

    /// Brings Redis into line with what was saved.
    async fn heat(&self, mut activity: Activity) -> Result<Tried, StoreError> {
        for _ in 0..HEATS {
            match warm_up(self.redis, &activity, self.ticket_secret).await? {
                WarmUpOutcome::Done => {}
                // The first gate of a sale, and one after Redis lost it, are made alike.
                WarmUpOutcome::Missing => {
                    match rebuild(self.redis, self.sql, &activity.id, self.ticket_secret, self.now).await? {
                        Rebuilt::Done { epoch, .. } => activity.epoch = epoch,
                        // Somebody else has just made one.
                        Rebuilt::Open => {}
                        Rebuilt::Fenced => return Ok(Tried::Half(REBUILT_AT_ONCE.to_owned())),
                        _ => {
                            return Ok(Tried::Half("The sale has no gate: rebuild it, or ask again.".to_owned()));
                        }
                    }
                    continue;
                }
                // Somebody changed the sale after us, and brings Redis along; or rebuilt it from what was before us.
                WarmUpOutcome::Stale => match activities::load(self.sql, &activity.id).await? {
                    Some(now) if now.version == activity.version && now.epoch > activity.epoch => {
                        activity.epoch = now.epoch;
                        continue;
                    }
                    _ => {}
                },
                WarmUpOutcome::Below(sku) => return Err(StoreError::Unreadable(format!("{sku} was not to be judged"))),
            }
            bans::copy(self.redis, self.sql, &activity.id, self.now).await?;
            return Ok(Tried::Done(Box::new(activity)));
        }
        Ok(Tried::Half(REBUILT_AT_ONCE.to_owned()))
    }
}
