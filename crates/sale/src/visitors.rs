//! What visitors see of activities, made from an instance's copies of the ledger and of Redis (A4, C8, F1).

use domain::{
    activity::{ActivitySpec, ActivityState, LineMode, Phase},
    api::visitors::{self as api, ActivityDocument, ActivitySummary, PublicEligibility, PublicLine, SkuStock},
    gate::GateDocument,
    ids::ActivityId,
    time::Millis,
};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use stores::ports::Redis;

use crate::{
    ledger::activities::{Activity, ListedActivity, RETENTION_AFTER_END_MS},
    read_gate::{GateSnapshot, read_gate},
};

/// An activity's spec and state as stored in key-value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedActivity {
    /// The activity's id.
    pub id: ActivityId,
    /// The spec: times, rules and SKUs.
    pub spec: ActivitySpec,
    /// The version of the activity, to be compared with the gate's.
    pub version: i64,
    state: String,
}

impl From<Activity> for CachedActivity {
    fn from(Activity { id, spec, version, state, .. }: Activity) -> Self {
        Self { id, spec, version, state: state.as_str().to_owned() }
    }
}

impl CachedActivity {
    /// Key of the copy of an activity in key-value.
    #[must_use]
    pub fn key(activity: &ActivityId) -> String {
        format!("sale:{activity}")
    }

    /// Whether visitors may see a copy of unknown age at `now`: not of a draft, nor of an activity whose keys in Redis have
    /// expired. It may be erased by then.
    #[must_use]
    pub fn may_be_shown(&self, now: Millis) -> bool {
        self.state() != ActivityState::Draft && now < self.spec.ends_at.plus(RETENTION_AFTER_END_MS)
    }

    /// The state that operators set; [`ActivityState::Draft`] if the text is unknown.
    #[must_use]
    pub fn state(&self) -> ActivityState {
        ActivityState::parse(&self.state).unwrap_or(ActivityState::Draft)
    }

    /// The document of the activity at `now`, by the instance's clock. Without a gate, because Redis is unavailable, it
    /// says nothing of the stock.
    #[must_use]
    pub fn document(&self, gate: Option<&CachedGate>, now: Millis) -> ActivityDocument<'_> {
        let Self { id, spec, .. } = self;
        let (phase, starts_at, ends_at, now) = match gate {
            Some(cached) => {
                let (gate, now) = (&cached.snapshot.gate, cached.redis_time(now));
                (gate.phase(now), gate.starts_at, gate.ends_at, now)
            }
            None => (self.state().phase(now, spec.starts_at, spec.ends_at), spec.starts_at, spec.ends_at, now),
        };
        let skus = spec.skus.iter().map(|sku| {
            let stock = gate.and_then(|cached| cached.snapshot.skus.iter().find(|stock| stock.sku == sku.sku));
            SkuStock {
                sku: &sku.sku,
                name: &sku.name,
                names: &sku.names,
                item: &sku.item,
                items: &sku.items,
                image: &sku.image,
                price: sku.price,
                currency: &sku.currency,
                total: stock.map_or(sku.total, |stock| stock.total),
                left: stock.and_then(|stock| stock.left),
                waiting: stock.filter(|stock| stock.line_units > 0).map(|stock| stock.waiting),
                as_of: gate.map(|cached| cached.snapshot.now),
            }
        });
        let ActivitySpec { title, titles, image, .. } = spec;
        ActivityDocument {
            summary: ActivitySummary { id, title, titles, image, phase, starts_at, ends_at, server_time: now },
            version: self.version,
            description: &spec.description,
            descriptions: &spec.descriptions,
            per_user: spec.per_user,
            pay_timeout_seconds: spec.pay_timeout_seconds,
            pay_extension_seconds: spec.pay_extension_seconds,
            refund_window_seconds: spec.refund_window_seconds,
            human_check: spec.human_check,
            checkout: spec.checkout,
            max_wait_seconds: spec.max_wait_seconds,
            line: (spec.line.mode != LineMode::None)
                .then(|| PublicLine { mode: spec.line.mode, offer_seconds: spec.offer_seconds() }),
            eligibility: PublicEligibility {
                members_only: spec.eligibility.members_only,
                min_level: spec.eligibility.min_level,
                invited_only: !(spec.eligibility.allow.is_empty() && spec.eligibility.groups.is_empty()),
                codes: spec.eligibility.codes,
            },
            skus: skus.collect(),
        }
    }
}

/// A gate as read from Redis, with the instance's clock at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedGate {
    /// The gate and the stock.
    pub snapshot: GateSnapshot,
    /// When they were read, by the instance's clock.
    pub read_at: Millis,
}

impl CachedGate {
    /// Estimates the time by Redis's clock at the instance's `now`: Redis's time when it read the gate, plus what has
    /// passed on the instance's clock since.
    #[must_use]
    pub fn redis_time(&self, now: Millis) -> Millis {
        self.snapshot.now.plus(now.0 - self.read_at.0)
    }
}

/// Key of the copy of the list in key-value.
pub const LIST_KEY: &str = "list";

/// Reads what is left of each activity that is open at `now`. Those that Redis does not answer about stay without.
pub async fn load_units_left<R: Redis>(redis: &R, activities: &mut [ListedActivity], now: Millis) {
    let open = activities.iter_mut().filter(|activity| activity.phase(now) == Phase::Open);
    join_all(open.map(async |activity| {
        if let Ok(Some(gate)) = read_gate(redis, &activity.id).await {
            activity.stock = gate.units_left();
        }
    }))
    .await;
}

/// The list of activities at `now`.
#[must_use]
pub fn list(activities: &[ListedActivity], now: Millis) -> Vec<api::ListedActivity<'_>> {
    let entries = activities.iter().map(|activity| {
        let ListedActivity { id, title, titles, image, price, starts_at, ends_at, .. } = activity;
        let (phase, starts_at, ends_at) = (activity.phase(now), *starts_at, *ends_at);
        let stock = activity.stock.filter(|_| phase == Phase::Open);
        api::ListedActivity {
            summary: ActivitySummary { id, title, titles, image, phase, starts_at, ends_at, server_time: now },
            price: price.amount,
            currency: &price.currency,
            sold_out: stock.is_some_and(|stock| stock.left == 0),
            left: stock.map(|stock| stock.left),
            total: stock.map(|stock| stock.total),
        }
    });
    entries.collect()
}

/// The gate as a script that a page can include.
///
/// `<` is escaped, so that a value that contains `</script>` cannot end an inline script.
#[must_use]
pub fn gate_script(gate: &GateDocument) -> String {
    let gate = serde_json::to_string(gate).unwrap_or_default();
    format!("globalThis.stampedeGate = {};\n", gate.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use domain::{activity::Announcement, ids::SkuId};
    use serde_json::{json, to_value};

    use super::*;
    use crate::{read_gate, reserve::Gate};

    fn spec() -> ActivitySpec {
        domain::http::body::parse(
            r#"{"title":"A sale","description":"All must go","image":"/sale.png","per_user":2,"human_check":"pow",
                 "starts_at":"1970-01-01T00:00:01Z","ends_at":"1970-01-01T00:00:02Z","pay_timeout_seconds":300,
                 "pay_extension_seconds":60,"max_wait_seconds":45,"checkout":"none",
                 "eligibility":{"members_only":true,"min_level":3,"allow":["ada"]},
                 "skus":[{"sku":"phone","name":"A phone","item":"Phone","items":{"zh":"手机"},
                          "image":"/a.png","price":19900,"currency":"EUR","total":5},
                         {"sku":"case","name":"A case","image":"/a.png","price":19900,"currency":"EUR","total":9}]}"#
                .as_bytes(),
        )
        .expect("a spec")
    }

    fn cached(state: ActivityState) -> CachedActivity {
        let id = ActivityId::parse("sale").expect("id");
        CachedActivity { id, spec: spec(), version: 1, state: state.as_str().to_owned() }
    }

    #[test]
    fn a_copy_is_shown_until_seven_days_after_the_end() {
        let end = Millis(2_000 + 7 * 24 * 3_600_000);
        let may_be_shown = |state, now| cached(state).may_be_shown(now);
        assert!(may_be_shown(ActivityState::Closed, end.plus(-1)));
        assert!(!may_be_shown(ActivityState::Closed, end));
        assert!(!may_be_shown(ActivityState::Draft, Millis(0)));
    }

    fn gate(state: ActivityState) -> CachedGate {
        let phone = read_gate::SkuStock {
            sku: SkuId::parse("phone").expect("SKU"),
            left: Some(3),
            total: 6,
            waiting: 0,
            line_units: 0,
        };
        let (starts_at, ends_at, start_key) = (Millis(1_500), Millis(2_500), "a</script>".to_owned());
        let gate = Gate { state, starts_at, ends_at, shed: false, start_key };
        CachedGate {
            snapshot: GateSnapshot {
                now: Millis(1_400),
                gate,
                visitors: 0,
                version: 1,
                announcement: Announcement::default(),
                skus: vec![phone],
            },
            read_at: Millis(9_000),
        }
    }

    #[test]
    fn the_document_has_times_phase_and_stock_of_the_gate_and_the_rest_of_the_spec() {
        let (cached, gate) = (cached(ActivityState::Draft), gate(ActivityState::Published));
        let document = |now| cached.document(Some(&gate), Millis(now));
        let expected = json!({
            "id": "sale",
            "title": "A sale",
            "image": "/sale.png",
            "phase": "open",
            "starts_at": "1970-01-01T00:00:01.500Z",
            "ends_at": "1970-01-01T00:00:02.500Z",
            "server_time": "1970-01-01T00:00:01.500Z",
            "version": 1,
            "description": "All must go",
            "per_user": 2,
            "pay_timeout_seconds": 300,
            "pay_extension_seconds": 60,
            "human_check": "pow",
            "checkout": "none",
            "max_wait_seconds": 45,
            "eligibility": { "members_only": true, "min_level": 3, "invited_only": true, "codes": false },
            "skus": [
                { "sku": "phone", "name": "A phone", "item": "Phone", "items": { "zh": "手机" }, "image": "/a.png", "price": 19_900, "currency": "EUR",
                  "total": 6, "left": 3, "as_of": "1970-01-01T00:00:01.400Z" },
                { "sku": "case", "name": "A case", "image": "/a.png", "price": 19_900, "currency": "EUR",
                  "total": 9, "left": null, "as_of": "1970-01-01T00:00:01.400Z" },
            ],
        });
        assert_eq!(to_value(document(9_100)).expect("JSON"), expected);
        assert_eq!(document(9_099).summary.phase, Phase::Scheduled);
    }

    #[test]
    fn the_list_has_the_summary_of_each_activity_its_price_and_while_it_is_open_what_is_left() {
        let listed = |stock| -> ListedActivity {
            let listed = json!({"id": "sale", "title": "A sale", "image": "/sale.png", "state": "published",
                "price": {"amount": 19_900, "currency": "EUR"}, "stock": stock,
                "starts_at": "1970-01-01T00:00:01Z", "ends_at": "1970-01-01T00:00:02Z"});
            serde_json::from_value(listed).expect("an activity")
        };
        let some_left = json!({"left": 3, "total": 14});
        let gone = json!({"left": 0, "total": 14});
        for (now, stock, rest) in [
            (0, &some_left, json!({"sold_out": false})),
            (1_000, &some_left, json!({"sold_out": false, "left": 3, "total": 14})),
            (1_000, &gone, json!({"sold_out": true, "left": 0, "total": 14})),
            (1_000, &json!(null), json!({"sold_out": false})),
            (2_000, &gone, json!({"sold_out": false})),
        ] {
            let cached = cached(ActivityState::Published);
            let mut expected = to_value(cached.document(None, Millis(now)).summary).expect("JSON");
            let members = expected.as_object_mut().expect("an object");
            members.extend([("price".to_owned(), json!(19_900)), ("currency".to_owned(), json!("EUR"))]);
            members.extend(rest.as_object().expect("an object").clone());
            assert_eq!(to_value(list(&[listed(stock)], Millis(now))).ok(), Some(json!([expected])), "{now} {stock}");
        }
    }

    #[test]
    fn an_inline_gate_script_cannot_be_ended_by_a_value() {
        let gate = gate(ActivityState::Published);
        let script = gate_script(&gate.snapshot.document(Millis(1_600)));
        assert!(script.starts_with("globalThis.stampedeGate = {") && script.ends_with("};\n"), "{script}");
        assert!(script.contains(r"a\u003c/script>"), "{script}");
    }
}
