//! Metrics in Prometheus' text format.
//!
//! Label values are ids, which contain no characters that need escaping.

use std::fmt::{Display, Write as _};

use domain::{ids::ActivityId, time::Millis};
use orders::{event_delivery::MAX_CONCURRENCY, ledger::events};
use serde::{Deserialize, Serialize};
use stores::ports::{Sql, StoreError};

use crate::{
    commands::{
        audit::{self, Audit},
        stats::{ActivityStats, RecentStats},
    },
    ledger::backlog::{self, Backlog},
};

/// The backlog, and the audits of the activities that have not ended, or ended lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerState {
    backlog: Backlog,
    audits: Vec<(ActivityId, AuditSummary)>,
    /// How often in a row the endpoint of events answered that it is gone.
    endpoint_gone: i64,
}

/// The part of an audit that becomes metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AuditSummary {
    ok: bool,
    drift: Vec<(String, i64)>,
}

impl LedgerState {
    /// Loads the ledger's state, and compares it with the counters in `redis`; without Redis no activity is audited.
    /// `events_url` is where events are sent.
    pub async fn load<S: Sql>(sql: &S, redis: Option<&RecentStats>, events_url: &str) -> Result<Self, StoreError> {
        let backlog = backlog::load(sql).await?;
        let endpoint_gone = events::load_endpoint(sql, events_url, MAX_CONCURRENCY).await?.gone;
        let audits = match redis {
            Some(stats) => audit::audit_counters(sql, &stats.activities).await?,
            None => Vec::new(),
        };
        let summarize = |(activity, audit): (ActivityId, Audit)| {
            let drift = audit.skus.into_iter().map(|sku| (sku.redis.sku, sku.drift)).collect();
            (activity, AuditSummary { ok: audit.ok, drift })
        };
        Ok(Self { backlog, audits: audits.into_iter().map(summarize).collect(), endpoint_gone })
    }
}

/// Writes the stats of activities, from Redis, and the ledger's state. The metrics of an unavailable
/// store (`None`) are omitted. Redis is not up if it failed on an activity.
#[must_use]
pub fn text(redis: Option<&RecentStats>, ledger: Option<&LedgerState>, now: Millis) -> String {
    let mut text = Text::default();
    let redis_up = redis.is_some_and(|stats| stats.failures.is_empty());
    let up = [("redis", redis_up), ("ledger", ledger.is_some())];
    let up = up.map(|(store, up)| (format!("{{store=\"{store}\"}}"), i64::from(up)));
    text.gauge("stampede_store_up", "Whether the store answered what these figures need.", up);
    redis.into_iter().for_each(|stats| text.add_redis(stats));
    ledger.into_iter().for_each(|ledger| text.add_ledger(ledger, now));
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn add_redis(&mut self, RecentStats { activities, foreign_callbacks, .. }: &RecentStats) {
        let help = "Payment callbacks about orders that this app never made.";
        self.counter("stampede_foreign_callbacks_total", help, foreign_callbacks.map(|count| ("", count)));
        let skus = || {
            let skus =
                activities.iter().flat_map(|(activity, stats)| stats.skus.iter().map(move |sku| (activity, sku)));
            skus.map(|(activity, sku)| (format!("{{activity=\"{activity}\",sku=\"{}\"}}", sku.sku), sku))
        };
        self.gauge("stampede_stock_left", "Units left.", skus().filter_map(|(labels, sku)| Some((labels, sku.left?))));
        let held = skus().map(|(labels, sku)| (labels, sku.held));
        self.gauge("stampede_units_held", "Units queued or waiting for payment.", held);
        self.gauge("stampede_units_sold", "Units sold.", skus().map(|(labels, sku)| (labels, sku.sold)));
        let each = |value: fn(&ActivityStats) -> i64| activities.iter().map(move |(id, stats)| (of(id), value(stats)));
        self.gauge("stampede_queue_length", "Orders waiting for the order writer.", each(|stats| stats.queue));
        let enqueued = each(|stats| stats.enqueued);
        self.counter("stampede_orders_enqueued_total", "Orders that ever entered the queue.", enqueued);
        self.counter("stampede_orders_written_total", "Orders that left the queue.", each(|stats| stats.written));
        let refusals = activities.iter().flat_map(|(activity, stats)| {
            let label = move |code| format!("{{activity=\"{activity}\",code=\"{code}\"}}");
            stats.refusals.iter().map(move |(code, count)| (label(code), *count))
        });
        self.counter("stampede_refusals_total", "Refused reservations, tickets and challenges, by code.", refusals);
        let sign_ins = activities.iter().flat_map(|(activity, stats)| {
            let label = move |reason| format!("{{activity=\"{activity}\",reason=\"{reason}\"}}");
            stats.refused_sign_ins.iter().map(move |(reason, count)| (label(reason), *count))
        });
        self.counter("stampede_refused_sign_ins_total", "Refused sign-in tokens, by reason.", sign_ins);
    }

    fn add_ledger(&mut self, LedgerState { backlog, audits, endpoint_gone }: &LedgerState, now: Millis) {
        let ok = audits.iter().map(|(activity, audit)| (of(activity), i64::from(audit.ok)));
        self.gauge("stampede_audit_ok", "Whether I1 and I2 hold in the sale, by its counters.", ok);
        let drift = audits.iter().flat_map(|(activity, audit)| {
            let drift = audit.drift.iter();
            drift.map(move |(sku, units)| (format!("{{activity=\"{activity}\",sku=\"{sku}\"}}"), *units))
        });
        self.gauge("stampede_drift", "Units by which Redis and the ledger differ; at rest 0.", drift);
        let oldest = if backlog.events == 0 { now } else { backlog.oldest_event_at };
        for (name, help, value) in [
            (
                "stampede_events_waiting",
                "Events waiting to be sent to the shop; 100,000 is that many or more.",
                backlog.events,
            ),
            (
                "stampede_events_oldest_age_seconds",
                "Age of the oldest event waiting to be sent; 0 where none waits.",
                (now.0 - oldest.0).max(0) / 1_000,
            ),
            (
                "stampede_events_gone",
                "How often in a row the shop's endpoint answered 410; at 4 it is disabled.",
                *endpoint_gone,
            ),
            ("stampede_refunds_open", "Refunds that no provider has confirmed.", backlog.refunds),
            ("stampede_refunds_stuck", "Open refunds whose last try failed.", backlog.stuck_refunds),
            ("stampede_callbacks_parked", "Payment callbacks parked for an operator.", backlog.parked_callbacks),
            ("stampede_dead_letters", "Dead letters that were not put back.", backlog.dead_letters),
        ] {
            self.gauge(name, help, [("", value)]);
        }
        let help = "Times that Redis had lost orders of a sale, which was rebuilt.";
        self.counter("stampede_redis_losses_total", help, [("", backlog.redis_losses)]);
    }

    fn gauge<L: Display>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (L, i64)>) {
        self.add(name, "gauge", help, samples);
    }

    fn counter<L: Display>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (L, i64)>) {
        self.add(name, "counter", help, samples);
    }

    /// Adds a metric and its samples: labels and value. Nothing without samples.
    fn add<L: Display>(&mut self, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = (L, i64)>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

fn of(activity: &ActivityId) -> String {
    format!("{{activity=\"{activity}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stats::SkuStats;

    fn activities() -> RecentStats {
        let sku =
            |sku: &str, left| SkuStats { sku: sku.to_owned(), total: 9, left, held: 2, queued: 1, pending: 1, sold: 3 };
        let stats = ActivityStats {
            server_time: Millis(0),
            enqueued: 7,
            written: 5,
            queue: 2,
            stream: 2,
            lost: 0,
            drain_rate: 0,
            skus: vec![sku("a", Some(4)), sku("b", None)],
            refusals: [("sold_out".to_owned(), 6)].into(),
            refused_sign_ins: [("exp".to_owned(), 2)].into(),
        };
        let activities = vec![(ActivityId::parse("sale").expect("id"), stats)];
        RecentStats { activities, failures: Vec::new(), foreign_callbacks: Some(3) }
    }

    fn ledger() -> LedgerState {
        let backlog = Backlog { events: 1, oldest_event_at: Millis(5_000), refunds: 2, ..Backlog::default() };
        let audit = AuditSummary { ok: false, drift: vec![("a".to_owned(), -1)] };
        LedgerState { backlog, audits: vec![(ActivityId::parse("sale").expect("id"), audit)], endpoint_gone: 1 }
    }

    #[test]
    fn every_figure_is_a_line_with_its_labels() {
        let expected = [
            r#"stampede_store_up{store="redis"} 1"#,
            r#"stampede_store_up{store="ledger"} 1"#,
            "stampede_foreign_callbacks_total 3",
            r#"stampede_stock_left{activity="sale",sku="a"} 4"#,
            r#"stampede_units_held{activity="sale",sku="a"} 2"#,
            r#"stampede_units_held{activity="sale",sku="b"} 2"#,
            r#"stampede_units_sold{activity="sale",sku="a"} 3"#,
            r#"stampede_units_sold{activity="sale",sku="b"} 3"#,
            r#"stampede_queue_length{activity="sale"} 2"#,
            r#"stampede_orders_enqueued_total{activity="sale"} 7"#,
            r#"stampede_orders_written_total{activity="sale"} 5"#,
            r#"stampede_refusals_total{activity="sale",code="sold_out"} 6"#,
            r#"stampede_refused_sign_ins_total{activity="sale",reason="exp"} 2"#,
            r#"stampede_audit_ok{activity="sale"} 0"#,
            r#"stampede_drift{activity="sale",sku="a"} -1"#,
            "stampede_events_waiting 1",
            "stampede_events_oldest_age_seconds 4",
            "stampede_events_gone 1",
            "stampede_refunds_open 2",
            "stampede_refunds_stuck 0",
            "stampede_callbacks_parked 0",
            "stampede_dead_letters 0",
            "stampede_redis_losses_total 0",
        ];
        let text = text(Some(&activities()), Some(&ledger()), Millis(9_999));
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(), expected);
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            assert!(line.ends_with(if line.contains("_total ") { "counter" } else { "gauge" }), "{line}");
        }
    }

    #[test]
    fn redis_is_not_up_where_it_failed_on_an_activity_and_the_figures_of_the_others_are_shown() {
        let failures =
            vec![(ActivityId::parse("other").expect("id"), StoreError::RedisRefused("WRONGTYPE".to_owned()))];
        let text = text(Some(&RecentStats { failures, ..activities() }), None, Millis(0));
        assert!(text.contains(r#"stampede_store_up{store="redis"} 0"#), "{text}");
        assert!(text.contains(r#"stampede_units_sold{activity="sale",sku="a"} 3"#), "{text}");
        assert!(text.contains(r#"stampede_store_up{store="ledger"} 0"#) && !text.contains("_events_"), "{text}");
    }

    #[test]
    fn without_waiting_events_and_activities_there_is_no_age_and_no_empty_metric() {
        let ledger = LedgerState { backlog: Backlog::default(), audits: vec![], endpoint_gone: 0 };
        let text = text(Some(&RecentStats::default()), Some(&ledger), Millis(9_999));
        assert!(text.contains("\nstampede_events_oldest_age_seconds 0\n"), "{text}");
        assert!(!text.contains("stampede_queue_length") && !text.contains("stampede_audit_ok"), "{text}");
    }
}
