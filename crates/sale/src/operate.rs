//! What operators do to a sale: the ledger and Redis are changed in the order that can only undersell in between.

use stampede_domain::{
    activity::{LARGEST_TOTAL, Spec, State},
    ids::{ActivityId, SkuId},
    time::Millis,
};

use crate::{
    bans,
    keys::Keys,
    ledger::{
        activities::{self, Activity},
        epochs,
    },
    ports::{Redis, Sql, StoreError},
    preheat::{Preheated, preheat},
    rebuild::{Rebuilt, rebuild},
    reply::Reply,
    sweep,
};

/// What came of an operator's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operated {
    /// Done.
    Done(Box<Activity>),
    /// There is no such sale.
    Unknown,
    /// Not in this state, or not below what is held and sold; the text says which.
    Conflict(String),
}

/// What operations need beside the stores.
pub struct Desk<'a, R, S> {
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

impl<R: Redis, S: Sql> Desk<'_, R, S> {
    /// Creates a sale as a draft, replaces a draft, or changes a published sale where that is safe.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put(&self, id: &ActivityId, spec: Spec) -> Result<Operated, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else {
            let new = Activity {
                id: id.clone(),
                spec,
                state: State::Draft,
                nonce: self.nonce.clone(),
                version: 1,
                epoch: 0,
                live: Vec::new(),
            };
            return self.save(&new, 0).await;
        };
        self.change(old, spec).await
    }

    /// Adds `by` units to a SKU (or, below 0, takes unsold ones away).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn restock(&self, id: &ActivityId, sku: &SkuId, by: i64) -> Result<Operated, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(Operated::Unknown) };
        let mut spec = old.spec.clone();
        let Some(known) = spec.skus.iter_mut().find(|known| known.sku == *sku) else { return Ok(Operated::Unknown) };
        if known.total < 0 {
            return Ok(Operated::Conflict("The SKU is unlimited: there is nothing to restock.".to_owned()));
        }
        match known.total.checked_add(by).filter(|total| (0..=LARGEST_TOTAL).contains(total)) {
            Some(total) => known.total = total,
            None => return Ok(Operated::Conflict("The total would be below 0 or above 10^9.".to_owned())),
        }
        self.change(old, spec).await
    }

    async fn change(&self, old: Activity, spec: Spec) -> Result<Operated, StoreError> {
        let new = Activity { spec, ..self.next(&old).await? };
        match old.state {
            State::Draft => return self.save(&new, old.version).await,
            State::Closed => return Ok(Operated::Conflict("The sale is closed: it cannot be changed.".to_owned())),
            State::Published | State::Paused => {}
        }
        let after = |sku: &SkuId| new.spec.skus.iter().find(|other| other.sku == *sku).map(|other| other.total);
        for sku in &old.spec.skus {
            match after(&sku.sku) {
                None => return Ok(Operated::Conflict(format!("SKU {} is on sale: it cannot be removed.", sku.sku))),
                Some(total) if (total < 0) != (sku.total < 0) => {
                    let detail = format!("SKU {}: a total cannot become or cease to be unlimited.", sku.sku);
                    return Ok(Operated::Conflict(detail));
                }
                Some(_) => {}
            }
        }
        let lowered = old.spec.skus.iter().any(|sku| after(&sku.sku).is_some_and(|total| total < sku.total));
        if !lowered {
            return match self.save(&new, old.version).await? {
                Operated::Done(_) => self.heat(new).await,
                other => Ok(other),
            };
        }
        // Redis decides what can still be taken off sale: it goes first, so that nothing is promised in between.
        match self.heat(new.clone()).await? {
            Operated::Done(_) => {}
            other => return Ok(other),
        }
        match self.save(&new, old.version).await {
            Err(StoreError::LedgerRefused(_)) | Ok(Operated::Conflict(_)) => {
                let restored = Activity { version: new.version + 1, ..old.clone() };
                self.save(&restored, old.version).await?;
                self.heat(restored).await?;
                Ok(Operated::Conflict("A total would be below what is held and sold.".to_owned()))
            }
            other => other,
        }
    }

    /// Publishes, pauses, resumes or closes a sale. Publishing again preheats again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn set_state(&self, id: &ActivityId, state: State) -> Result<Operated, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(Operated::Unknown) };
        let legal = matches!(
            (old.state, state),
            (State::Draft | State::Published | State::Paused, State::Published)
                | (State::Published | State::Paused, State::Paused | State::Closed)
                | (State::Closed, State::Closed)
        );
        if !legal {
            let detail = format!("The sale is {}: it cannot become {}.", old.state.as_str(), state.as_str());
            return Ok(Operated::Conflict(detail));
        }
        let new = Activity { state, ..self.next(&old).await? };
        match self.save(&new, old.version).await? {
            Operated::Done(_) => self.heat(new).await,
            other => Ok(other),
        }
    }

    /// Makes a new start key (A4): reservations with the old one are refused from this moment on.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rotate_start_key(&self, id: &ActivityId) -> Result<Operated, StoreError> {
        let Some(old) = activities::load(self.sql, id).await? else { return Ok(Operated::Unknown) };
        let new = Activity { nonce: self.nonce.clone(), ..self.next(&old).await? };
        match (new.state, self.save(&new, old.version).await?) {
            (State::Published | State::Paused, Operated::Done(_)) => self.heat(new).await,
            (_, other) => Ok(other),
        }
    }

    /// Sheds load, or stops shedding: every sale answers `overloaded` to reservations while it is on (B9).
    ///
    /// # Errors
    /// [`StoreError`] of Redis.
    pub async fn shed(&self, on: bool) -> Result<usize, StoreError> {
        let activities = sweep::activities(self.redis).await?;
        for activity in &activities {
            let flag = if on { "1" } else { "0" };
            let args = vec![Keys::of(activity).named("gate").into(), "shed".into(), flag.into()];
            self.redis.command("HSET", args).await?;
        }
        Ok(activities.len())
    }

    /// The sale as it is to be changed: its version is later than the ledger's and than the gate's, and its epoch no
    /// older. The gate is ahead where the ledger was restored from a backup; it would take the change for an old one.
    async fn next(&self, old: &Activity) -> Result<Activity, StoreError> {
        let mut next = Activity { version: old.version + 1, ..old.clone() };
        let args = vec![Keys::of(&old.id).named("gate").into(), "epoch".into(), "version".into()];
        // While Redis is away nothing is known of it, and whoever brings it into line says so.
        let Ok(gate) = self.redis.command("HMGET", args).await else { return Ok(next) };
        let mut gate = Reply::new(gate);
        let (epoch, version) = (gate.int()?, gate.int()?);
        if epoch > old.epoch {
            epochs::catch_up(self.sql, &old.id, epoch).await?;
            next.epoch = epoch;
        }
        if epoch >= old.epoch {
            next.version = next.version.max(version + 1);
        }
        Ok(next)
    }

    async fn save(&self, activity: &Activity, expected: i64) -> Result<Operated, StoreError> {
        match activities::save(self.sql, activity, expected, self.now).await {
            Ok(true) => Ok(Operated::Done(Box::new(activity.clone()))),
            Ok(false) => Ok(Operated::Conflict("Somebody changed the sale at the same time: look again.".to_owned())),
            Err(StoreError::LedgerRefused(_)) => {
                Ok(Operated::Conflict("A total would be below what is held and sold.".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    async fn heat(&self, activity: Activity) -> Result<Operated, StoreError> {
        let mut activity = activity;
        let mut preheated = preheat(self.redis, &activity, self.ticket_secret).await?;
        if preheated == Preheated::Missing {
            // The first gate of a sale, and one after Redis lost it, are made alike.
            match rebuild(self.redis, self.sql, &activity.id, self.ticket_secret, self.now).await? {
                Rebuilt::Done { epoch, .. } => activity.epoch = epoch,
                Rebuilt::Fenced => {
                    return Ok(Operated::Conflict(
                        "Somebody rebuilds the sale at the same time: look again.".to_owned(),
                    ));
                }
                other => return Err(StoreError::Unreadable(format!("{other:?} where there was no gate"))),
            }
            preheated = preheat(self.redis, &activity, self.ticket_secret).await?;
        }
        match preheated {
            Preheated::Done | Preheated::Stale => {
                bans::copy(self.redis, self.sql, &activity.id, self.now).await?;
                Ok(Operated::Done(Box::new(activity)))
            }
            Preheated::Below(sku) => {
                Ok(Operated::Conflict(format!("The total of SKU {sku} would be below what is held and sold.")))
            }
            Preheated::Missing => Err(StoreError::Unreadable("a gate that was just made is missing".to_owned())),
        }
    }
}
