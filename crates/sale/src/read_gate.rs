//! Reads the gate and the stock of an activity (`lua/read_gate.lua`).

use domain::{
    activity::{Announcement, Phase},
    gate::{self, GateDocument},
    ids::{ActivityId, SkuId},
    time::Millis,
};
use stores::{
    keys::Keys,
    ports::{Redis, StoreError},
};

use super::reserve::Gate;
use crate::{ledger::activities::UnitsLeft, scripts::READ_GATE};

/// Stock of a SKU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkuStock {
    /// The SKU.
    pub sku: SkuId,
    /// Units left; -1 if unlimited, `None` if the stock is not loaded yet. What somebody waits for is not left (I8).
    pub left: Option<i64>,
    /// How many wait for a unit.
    pub waiting: i64,
    /// How many may; 0 without a line.
    pub line_units: i64,
    /// Units on sale; negative if unlimited.
    pub total: i64,
}

impl SkuStock {
    /// Whether there are neither units nor room in a line.
    fn is_sold_out(&self) -> bool {
        self.left == Some(0) && self.waiting >= self.line_units
    }
}

/// Gate and stock, read at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSnapshot {
    /// Redis time of the read.
    pub now: Millis,
    /// The gate.
    pub gate: Gate,
    /// Approximate number of users who asked for a challenge or a ticket (HyperLogLog).
    pub visitors: i64,
    /// The activity version that the gate was loaded from.
    pub version: i64,
    /// A word from the shop, by language.
    pub announcement: Announcement,
    /// Stock per SKU.
    pub skus: Vec<SkuStock>,
}

impl GateSnapshot {
    /// Units on sale over all SKUs; -1 if one of them is unlimited.
    #[must_use]
    pub fn total_units(&self) -> i64 {
        if self.skus.iter().any(|sku| sku.total < 0) { -1 } else { self.skus.iter().map(|sku| sku.total).sum() }
    }

    /// Units of all SKUs; `None` if one is unlimited, or its stock is not loaded yet.
    #[must_use]
    pub fn units_left(&self) -> Option<UnitsLeft> {
        self.skus.iter().try_fold(UnitsLeft { left: 0, total: 0 }, |units, sku| {
            let left = sku.left.filter(|left| *left >= 0)?;
            Some(UnitsLeft { left: units.left + left, total: units.total + sku.total })
        })
    }

    /// `gate.json` at `now`, by Redis's clock. It has the start key only while a reservation with it may succeed (A4).
    #[must_use]
    pub fn document(&self, now: Millis) -> GateDocument {
        let phase = self.gate.phase(now);
        GateDocument {
            phase,
            server_time: now,
            starts_at: self.gate.starts_at,
            ends_at: self.gate.ends_at,
            version: self.version,
            announcement: self.announcement.clone(),
            jitter_ms: gate::jitter_ms(self.visitors, self.total_units()),
            sold_out: self.skus.iter().filter(|sku| sku.is_sold_out()).map(|sku| sku.sku.clone()).collect(),
            start_key: (phase == Phase::Open && !self.gate.shed).then(|| self.gate.start_key.clone()),
        }
    }
}

/// Reads the gate; `None` if the activity has none.
pub async fn read_gate<R: Redis>(redis: &R, activity: &ActivityId) -> Result<Option<GateSnapshot>, StoreError> {
    let keys = Keys::of(activity);
    let mut reply = READ_GATE.run(redis, keys.all(["gate", "visitors", "stats"]), Vec::new()).await?;
    if !reply.is("found", "no_gate")? {
        return Ok(None);
    }
    let now = Millis(reply.int()?);
    let (gate, version, visitors) = (Gate::read(&mut reply)?, reply.int()?, reply.int()?);
    let announcement = Announcement::from_text(&reply.text()?).unwrap_or_default();
    let mut skus = Vec::new();
    while reply.remaining() > 0 {
        let (sku, left, total) = (reply.parse()?, reply.text()?.parse().ok(), reply.int()?);
        skus.push(SkuStock { sku, left, total, waiting: reply.int()?, line_units: reply.int()? });
    }
    Ok(Some(GateSnapshot { now, gate, visitors, version, announcement, skus }))
}

#[cfg(test)]
mod tests {
    use domain::activity::ActivityState;

    use super::*;

    fn snapshot(state: ActivityState, shed: bool) -> GateSnapshot {
        let sku = |sku: &str, left| SkuStock {
            sku: SkuId::parse(sku).expect("SKU"),
            left,
            total: 3,
            waiting: 0,
            line_units: 0,
        };
        let start_key = "key".to_owned();
        GateSnapshot {
            now: Millis(0),
            gate: Gate { state, starts_at: Millis(1_000), ends_at: Millis(2_000), shed, start_key },
            visitors: 0,
            version: 1,
            announcement: Announcement::from_text(r#"{"en":"Hello"}"#).expect("an announcement"),
            skus: vec![sku("left", Some(1)), sku("gone", Some(0)), sku("unlimited", Some(-1)), sku("unloaded", None)],
        }
    }

    #[test]
    fn the_start_key_is_shown_only_while_the_sale_is_open_and_load_is_not_shed() {
        use ActivityState::{Closed, Paused, Published};
        for (state, shed, now, shown) in [
            (Published, false, 1_000, true),
            (Published, false, 1_999, true),
            (Published, false, 999, false),
            (Published, false, 2_000, false),
            (Published, true, 1_000, false),
            (Paused, false, 1_000, false),
            (Closed, false, 1_000, false),
        ] {
            let document = snapshot(state, shed).document(Millis(now));
            assert_eq!(document.start_key.is_some(), shown, "{state:?} at {now}, shed: {shed}");
        }
    }

    #[test]
    fn only_a_sku_without_units_is_sold_out() {
        let document = snapshot(ActivityState::Published, false).document(Millis(1_000));
        assert_eq!(document.sold_out.iter().map(SkuId::as_str).collect::<Vec<_>>(), ["gone"]);
        assert_eq!((document.server_time, document.version, document.jitter_ms), (Millis(1_000), 1, 100));
        assert_eq!(document.announcement.to_text(), r#"{"en":"Hello"}"#);
    }

    #[test]
    fn a_sku_with_room_in_its_line_is_not_sold_out() {
        let mut snapshot = snapshot(ActivityState::Published, false);
        snapshot.skus[1].line_units = 2;
        for (waiting, is_sold_out) in [(0, false), (1, false), (2, true), (3, true)] {
            snapshot.skus[1].waiting = waiting;
            assert_eq!(!snapshot.document(Millis(1_000)).sold_out.is_empty(), is_sold_out, "{waiting}");
        }
    }

    #[test]
    fn units_are_counted_unless_a_sku_is_unlimited_or_not_loaded() {
        let mut snapshot = snapshot(ActivityState::Published, false);
        let (unlimited, unloaded) = (snapshot.skus[2].clone(), snapshot.skus[3].clone());
        snapshot.skus.truncate(2);
        assert_eq!(snapshot.units_left(), Some(UnitsLeft { left: 1, total: 6 }));
        for sku in [unlimited, unloaded] {
            snapshot.skus.truncate(2);
            snapshot.skus.push(sku);
            assert_eq!(snapshot.units_left(), None);
        }
    }
}
