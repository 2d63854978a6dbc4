//! Metrics in Prometheus' text format.
//!
//! Label values are ids, which contain no characters that need escaping.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write as _},
};

use domain::{ids::ActivityId, time::Millis};
use orders::{event_delivery::MAX_CONCURRENCY, ledger::events};
use serde::{Deserialize, Serialize};
use stores::{
    counts::BUCKETS_MS,
    ledger::schema,
    ports::{Sql, StoreError},
};

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
    /// Whether there is an endpoint of events.
    sends_events: bool,
    /// How often in a row the endpoint of events answered that it is gone.
    endpoint_gone: i64,
    /// Whether it is disabled.
    endpoint_disabled: bool,
    /// Activities that need a gate in Redis, which has none.
    without_gate: Vec<ActivityId>,
    /// The version of the ledger's schema.
    schema: i64,
}

/// What `GET /metrics` shows.
#[derive(Debug)]
pub struct Figures<'a> {
    /// The version of the app.
    pub version: &'a str,
    /// What Redis has of activities; `None` if it does not answer.
    pub redis: Option<&'a RecentStats>,
    /// Whether Redis took a write.
    pub redis_writes: bool,
    /// What all instances did: the words of each count, sorted, and its number.
    pub counts: &'a [(Vec<String>, i64)],
    /// By how much the clock of Redis is ahead of this machine's, in milliseconds.
    pub redis_ahead_ms: Option<i64>,
    /// What the ledger has; `None` if it does not answer.
    pub ledger: Option<&'a LedgerState>,
    /// The time.
    pub now: Millis,
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
        let endpoint = events::load_endpoint(sql, events_url, MAX_CONCURRENCY).await?;
        let has_gate = |id: &ActivityId, stats: &RecentStats| {
            stats.activities.iter().any(|(of, _)| of == id) || stats.failures.iter().any(|(of, _)| of == id)
        };
        let without_gate = match redis {
            Some(stats) => backlog.on_sale.iter().filter(|id| !has_gate(id, stats)).cloned().collect(),
            None => Vec::new(),
        };
        let audits = match redis {
            Some(stats) => audit::audit_counters(sql, &stats.activities).await?,
            None => Vec::new(),
        };
        let summarize = |(activity, audit): (ActivityId, Audit)| {
            let drift = audit.skus.into_iter().map(|sku| (sku.redis.sku, sku.drift)).collect();
            (activity, AuditSummary { ok: audit.ok, drift })
        };
        Ok(Self {
            backlog,
            audits: audits.into_iter().map(summarize).collect(),
            sends_events: !events_url.is_empty(),
            endpoint_gone: endpoint.gone,
            endpoint_disabled: endpoint.disabled_at.is_some(),
            without_gate,
            schema: schema::current_version(sql).await?,
        })
    }
}

/// Writes the figures. Those of an unavailable store are omitted. Redis is not up if it took no write, or failed on an
/// activity.
#[must_use]
pub fn text(Figures { version, redis, redis_writes, counts, redis_ahead_ms, ledger, now }: Figures<'_>) -> String {
    let mut text = Text::default();
    let schema = ledger.map_or_else(String::new, |ledger| format!(",schema=\"{}\"", ledger.schema));
    let build = format!("{{version=\"{version}\"{schema}}}");
    text.gauge("stampede_build_info", "The version of the app, and of the ledger's schema.", [(build, 1)]);
    let redis_up = redis_writes && redis.is_some_and(|stats| stats.failures.is_empty());
    let up = [("redis", redis_up), ("ledger", ledger.is_some())];
    let up = up.map(|(store, up)| (format!("{{store=\"{store}\"}}"), i64::from(up)));
    text.gauge("stampede_store_up", "Whether the store answered what these figures need.", up);
    let ahead = redis_ahead_ms.map(|ms| ("{store=\"redis\"}", ms as f64 / 1_000.0));
    text.gauge("stampede_clock_ahead_seconds", "By how much a store's clock is ahead of the app's.", ahead);
    text.add_counts(counts);
    redis.into_iter().for_each(|stats| text.add_redis(stats));
    ledger.into_iter().for_each(|ledger| text.add_ledger(ledger, now));
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn add_counts(&mut self, counts: &[(Vec<String>, i64)]) {
        let counts: Vec<_> = counts
            .iter()
            .map(|(words, count)| (words.iter().map(String::as_str).collect::<Vec<_>>(), *count))
            .collect();
        let mut of = |name: &str, help: &str, label: fn(&[&str]) -> Option<String>| {
            let samples = counts.iter().filter_map(|(words, count)| Some((format!("{{{}}}", label(words)?), *count)));
            self.counter(name, help, samples.collect::<Vec<_>>());
        };
        of("stampede_http_requests_total", "Responses, by route.", |words| match words {
            ["request", method, route, status, code] => {
                let labels = route_labels(method, route);
                let error = if code.is_empty() { String::new() } else { format!(",error_type=\"{code}\"") };
                Some(format!("{labels},http_response_status_code=\"{status}\"{error}"))
            }
            _ => None,
        });
        of("stampede_store_calls_total", "Calls of Redis and the ledger.", |words| match words {
            ["call", store, kind, result] => Some(format!("store=\"{store}\",kind=\"{kind}\",result=\"{result}\"")),
            _ => None,
        });
        for (name, help, label) in [
            ("stampede_sweeps_total", "Sweeps.", (|words| result(words, "sweep")) as fn(&[&str]) -> _),
            ("stampede_writer_runs_total", "Runs of the order writer that had messages.", |words| {
                result(words, "writer")
            }),
            ("stampede_writer_batches_total", "Batches of orders written.", |words| result(words, "batch")),
            ("stampede_messages_total", "Messages of queued orders, by what became of them.", |words| {
                result(words, "message")
            }),
            ("stampede_callbacks_total", "Payment callbacks.", |words| result(words, "callback")),
            ("stampede_checkouts_total", "Answers of the payment provider to checkouts.", |words| {
                result(words, "checkout")
            }),
        ] {
            of(name, help, label);
        }
        for (name, help, kind, wanted) in [
            ("stampede_sweep_last_success_timestamp_seconds", "When the last good sweep ended.", "sweep", "ok"),
            ("stampede_writer_last_success_timestamp_seconds", "When the order writer last wrote.", "writer", "ok"),
        ] {
            let at = counts.iter().filter(|(words, _)| words[..] == ["last", kind, wanted]);
            self.gauge(name, help, at.map(|(_, ms)| ("", *ms as f64 / 1_000.0)).collect::<Vec<_>>());
        }
        self.add_durations(&counts);
    }

    /// Adds the histogram of durations.
    fn add_durations(&mut self, counts: &[(Vec<&str>, i64)]) {
        let mut routes: BTreeMap<String, ([i64; BUCKETS_MS.len() + 1], i64)> = BTreeMap::new();
        for (words, count) in counts {
            match words[..] {
                ["duration", method, route, bucket] => {
                    let (buckets, _) = routes.entry(route_labels(method, route)).or_default();
                    let bucket = bucket.parse().ok().and_then(|index: usize| buckets.get_mut(index));
                    bucket.into_iter().for_each(|bucket| *bucket += count);
                }
                ["time", method, route] => routes.entry(route_labels(method, route)).or_default().1 += count,
                _ => {}
            }
        }
        let name = "http_server_request_duration_seconds";
        let mut samples = Vec::new();
        for (labels, (buckets, micros)) in routes {
            let bounds = BUCKETS_MS.iter().map(|ms| (f64::from(*ms) / 1_000.0).to_string());
            let mut total = 0;
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(buckets) {
                total += count;
                samples.push((format!("_bucket{{{labels},le=\"{bound}\"}}"), total as f64));
            }
            samples.push((format!("_sum{{{labels}}}"), micros as f64 / 1e6));
            samples.push((format!("_count{{{labels}}}"), total as f64));
        }
        self.add(name, "histogram", "Duration of one request in sixteen.", samples);
    }

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
        let oldest = each(|stats| stats.oldest_ms).map(|(labels, ms)| (labels, ms as f64 / 1_000.0));
        self.gauge("stampede_queue_oldest_age_seconds", "How long the oldest order has waited for the writer.", oldest);
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

    fn add_ledger(&mut self, ledger: &LedgerState, now: Millis) {
        let LedgerState { backlog, audits, sends_events, endpoint_gone, endpoint_disabled, without_gate, .. } = ledger;
        let help = "Activities on sale that Redis has no gate of; must be none.";
        self.gauge("stampede_gate_missing", help, without_gate.iter().map(|id| (of(id), 1)));
        let ok = audits.iter().map(|(activity, audit)| (of(activity), i64::from(audit.ok)));
        self.gauge("stampede_audit_ok", "Whether I1 and I2 hold in the sale, by its counters.", ok);
        let drift = audits.iter().flat_map(|(activity, audit)| {
            let drift = audit.drift.iter();
            drift.map(move |(sku, units)| (format!("{{activity=\"{activity}\",sku=\"{sku}\"}}"), *units))
        });
        self.gauge("stampede_drift", "Units by which Redis and the ledger differ; at rest 0.", drift);
        let age = |count: i64, since: Millis| if count == 0 { 0 } else { (now.0 - since.0).max(0) / 1_000 };
        let oldest_refund = i64::from(backlog.oldest_refund_at > Millis(0));
        let events = [
            (
                "stampede_events_waiting",
                "Events waiting to be sent to the shop; 100,000 is that many or more.",
                backlog.events,
            ),
            (
                "stampede_events_oldest_age_seconds",
                "Age of the oldest event waiting to be sent; 0 where none waits.",
                age(backlog.events, backlog.oldest_event_at),
            ),
            ("stampede_events_failed", "Events that are not sent any more; must be 0.", backlog.failed_events),
            (
                "stampede_events_disabled",
                "Whether the shop's endpoint is disabled; must be 0.",
                i64::from(*endpoint_disabled),
            ),
            (
                "stampede_events_gone",
                "How often in a row the shop's endpoint answered 410; at 4 it is disabled.",
                *endpoint_gone,
            ),
        ];
        let others = [
            ("stampede_refunds_open", "Refunds that no provider has confirmed.", backlog.refunds),
            ("stampede_refunds_stuck", "Open refunds whose last try failed.", backlog.stuck_refunds),
            (
                "stampede_refunds_oldest_age_seconds",
                "Age of the oldest open refund; 0 where none is open.",
                age(oldest_refund, backlog.oldest_refund_at),
            ),
            (
                "stampede_callbacks_parked",
                "Payment callbacks parked for an operator; must be 0.",
                backlog.parked_callbacks,
            ),
            ("stampede_callbacks_waiting", "Payment callbacks not applied yet.", backlog.remaining.callbacks),
            (
                "stampede_callbacks_stuck",
                "Payment callbacks not applied in three tries; must be 0.",
                backlog.stuck_callbacks,
            ),
            (
                "stampede_sessions_unanswered",
                "Payment sessions whose provider did not answer three times; must be 0.",
                backlog.unanswered_sessions,
            ),
            ("stampede_dead_letters", "Dead letters that were not put back; must be 0.", backlog.dead_letters),
            ("stampede_orders_due", "Orders whose time to pay was over two minutes ago.", backlog.remaining.due),
            (
                "stampede_orders_unsynced",
                "Changes of orders that Redis has not confirmed within three seconds.",
                backlog.remaining.unsynced,
            ),
            (
                "stampede_rebuilds_unfinished",
                "Gates that stopped and rebuilds that no process continues; must be 0.",
                backlog.rebuilds,
            ),
            ("stampede_disputes_open", "Payments that their buyers dispute.", backlog.disputes),
        ];
        // Events from before they were turned off are not sent.
        for (name, help, value) in events.into_iter().filter(|_| *sends_events).chain(others) {
            self.gauge(name, help, [("", value)]);
        }
        let help = "Times that Redis had lost orders of a sale, which was rebuilt.";
        self.counter("stampede_redis_losses_total", help, [("", backlog.redis_losses)]);
    }

    fn gauge<L: Display, V: Display>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (L, V)>) {
        self.add(name, "gauge", help, samples);
    }

    fn counter<L: Display>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (L, i64)>) {
        self.add(name, "counter", help, samples);
    }

    /// Adds a metric and its samples: labels and value. Nothing without samples.
    fn add<L: Display, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// The result of a count of work, as a label.
fn result(words: &[&str], kind: &str) -> Option<String> {
    match words {
        ["work", of, result] if *of == kind => Some(format!("result=\"{result}\"")),
        _ => None,
    }
}

/// A route as labels of OpenTelemetry's names.
fn route_labels(method: &str, route: &str) -> String {
    format!("http_request_method=\"{method}\",http_route=\"{route}\"")
}

fn of(activity: &ActivityId) -> String {
    format!("{{activity=\"{activity}\"}}")
}

#[cfg(test)]
mod tests;
